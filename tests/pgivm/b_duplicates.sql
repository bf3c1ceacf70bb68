-- B: duplicates stay as many as they are, DISTINCT goes with the last one
CREATE TABLE t (i int, v int);
INSERT INTO t VALUES (1, 10), (2, 20), (3, 10);
SELECT pgivm.create_immv('mv_bag', 'SELECT v FROM t');
SELECT pgivm.create_immv('mv_set', 'SELECT DISTINCT v FROM t');
INSERT INTO t VALUES (4, 20), (5, NULL), (6, NULL);
DELETE FROM t WHERE i IN (1, 5);
BEGIN;
DELETE FROM t WHERE v = 20;
SELECT v, count(*) FROM mv_bag GROUP BY v ORDER BY v DESC;
ROLLBACK;
