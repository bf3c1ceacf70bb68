"""A workload derived from TPC-H: tables, queries, data, changes, benchmark and demo.

The queries and the data follow the TPC-H specification; the changes do not (all eight tables
change, and rows are updated), and no TPC metric is computed. Results are therefore not TPC-H
results. TPC-H is a trademark of the Transaction Processing Performance Council (tpc.org).
"""

from __future__ import annotations
