-- C: aggregates with and without GROUP BY, averages to PostgreSQL's digits, extremes that go
CREATE TABLE t (id int PRIMARY KEY, k int, v int, n numeric(8,2));
INSERT INTO t VALUES (1, 1, 10, 1.00), (2, 2, 20, 2.50), (3, 1, 30, 0.10), (4, NULL, 40, NULL);
SELECT pgivm.create_immv('mv_group (k, s, c, a)', 'SELECT k, sum(v), count(v), avg(v) FROM t GROUP BY k');
SELECT pgivm.create_immv('mv_stars', 'SELECT k, sum(n) AS s, count(*) AS c FROM t GROUP BY k');
SELECT pgivm.create_immv('mv_all', 'SELECT sum(v), count(v), avg(n) FROM t');
SELECT pgivm.create_immv('mv_ends (k, lo, hi)', 'SELECT k, min(v), max(v) FROM t GROUP BY k');
SELECT pgivm.create_immv('mv_end', 'SELECT min(v) AS lo, max(n) AS hi FROM t');
BEGIN;
INSERT INTO t VALUES (5, 1, 5, 3.33), (6, 2, 1, 0.01), (7, 3, 7, NULL);
UPDATE t SET v = v + 7 WHERE id = 1;
DELETE FROM t WHERE id IN (2, 3, 7);
DELETE FROM t;
INSERT INTO t VALUES (8, 9, 1, 1), (9, 9, 1, 1), (10, 9, 2, 1);
ROLLBACK;
INSERT INTO t VALUES (11, 1, 1, 1), (12, 1, 1, 1), (13, 1, 5, 7);
DELETE FROM t WHERE id IN (11, 12);
TRUNCATE t;
INSERT INTO t VALUES (1, 1, 2147483647, 99999.99), (2, 1, 2147483647, 0.01);
