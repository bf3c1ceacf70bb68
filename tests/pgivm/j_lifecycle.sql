-- J: refresh with and without data, drop, rename, direct changes
CREATE TABLE t (i int PRIMARY KEY, v int);
INSERT INTO t VALUES (1, 10), (2, 20);
SELECT pgivm.create_immv('mv', 'SELECT i, v FROM t WHERE v > 5');
SELECT pgivm.create_immv('mv2', 'SELECT count(*) AS n FROM t');
SELECT pgivm.refresh_immv('mv', true);
INSERT INTO t VALUES (3, 30);
SELECT pgivm.refresh_immv('mv', false);
INSERT INTO t VALUES (4, 40);
SELECT pgivm.refresh_immv('mv', true);
INSERT INTO t VALUES (5, 50);
-- refused: stream table
INSERT INTO mv VALUES (9, 9);
-- refused: stream table
UPDATE mv SET v = 0;
-- refused: stream table
DELETE FROM mv;
-- refused: stream table
TRUNCATE mv;
-- refused: read it
DROP TABLE t;
-- refused: is not an IMMV
SELECT pgivm.refresh_immv('t', true);
-- refused: nothing does not exist
SELECT pgivm.refresh_immv('nothing', true);
ALTER TABLE mv RENAME TO mv3;
INSERT INTO t VALUES (6, 60);
DROP TABLE mv3;
INSERT INTO t VALUES (7, 70) ON CONFLICT (i) DO NOTHING;
INSERT INTO t VALUES (7, 71), (8, 80) ON CONFLICT (i) DO UPDATE SET v = excluded.v + t.v;
DELETE FROM t WHERE v > 50 RETURNING i, v;
DROP TABLE t CASCADE;
