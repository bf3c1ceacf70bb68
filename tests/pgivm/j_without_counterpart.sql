-- A5, D4-D6, J1-J3: types of the user's own, foreign keys, triggers and row security. A lake has none of
-- them, and refuses them by name: nothing is taken for done that is not.
CREATE TABLE parent (i int, v text);
INSERT INTO parent VALUES (1, 'a'), (2, 'b');
SELECT pgivm.create_immv('seen', 'SELECT i, v FROM parent');
-- refused: has no counterpart
CREATE TYPE mytype;
-- refused: a lake checks no such constraint
CREATE TABLE child (i int REFERENCES parent (i) ON UPDATE CASCADE ON DELETE CASCADE, w text);
-- refused: a lake checks no such constraint
CREATE TABLE child (i int, FOREIGN KEY (i) REFERENCES parent (i) ON UPDATE CASCADE);
-- refused: ADD CONSTRAINT
ALTER TABLE parent ADD CONSTRAINT own FOREIGN KEY (i) REFERENCES parent (i) ON UPDATE CASCADE;
-- refused: has no counterpart
CREATE FUNCTION doubled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
-- refused: has no counterpart
CREATE TRIGGER doubling AFTER INSERT ON parent FOR EACH ROW EXECUTE FUNCTION doubled();
-- refused: has no counterpart
ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
-- refused: has no counterpart
CREATE POLICY own ON parent USING (v = current_user);
UPDATE parent SET i = i + 10;
DELETE FROM parent WHERE i = 11;
