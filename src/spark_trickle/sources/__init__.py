"""What stream tables read: one protocol, and one file for each kind of source."""
