-- H: NULL in values and keys
CREATE TABLE t (i int, v int);
CREATE TABLE e (i int);
INSERT INTO t VALUES (1, NULL), (NULL, 2), (NULL, 3);
SELECT pgivm.create_immv('mv_rows', 'SELECT i, v FROM t');
SELECT pgivm.create_immv('mv_empty', 'SELECT i FROM e');
SELECT pgivm.create_immv('mv_sums', 'SELECT i, sum(v) FROM t GROUP BY i');
SELECT pgivm.create_immv('mv_ends', 'SELECT i, min(v), max(v) FROM t GROUP BY i');
UPDATE t SET v = 5 WHERE i = 1;
INSERT INTO e VALUES (1), (NULL);
UPDATE t SET v = v * 10;
INSERT INTO t VALUES (NULL, 1), (NULL, 100), (NULL, 50);
DELETE FROM t WHERE v = 1;
DELETE FROM t WHERE v = 50;
DELETE FROM t WHERE v = 100;
