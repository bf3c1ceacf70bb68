-- strict
-- L: what pg_ivm refuses
CREATE TABLE t (i int, v int);
CREATE TABLE s (i int, v int);
INSERT INTO t VALUES (1, 10);
SELECT pgivm.create_immv('fine', 'SELECT v, sum(i) FROM t GROUP BY v');
-- refused: nested query
SELECT pgivm.create_immv('m', 'SELECT * FROM (SELECT count(*) FROM t) AS q');
-- refused: nested query
SELECT pgivm.create_immv('m', 'WITH q AS (SELECT DISTINCT i FROM t) SELECT i FROM q');
-- refused: subquery
SELECT pgivm.create_immv('m', 'SELECT i FROM t WHERE i IN (SELECT i FROM s)');
-- refused: subquery
SELECT pgivm.create_immv('m', 'SELECT i, (SELECT max(v) FROM s) FROM t');
-- refused: OR or NOT
SELECT pgivm.create_immv('m', 'SELECT i FROM t WHERE i = 1 OR EXISTS (SELECT 1 FROM s WHERE s.i = t.i)');
-- refused: nested sublink
SELECT pgivm.create_immv('m', 'SELECT i FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.i = t.i AND EXISTS (SELECT 1 FROM s AS z WHERE z.i = s.i))');
-- refused: must specify SELECT
SELECT pgivm.create_immv('m', 'DELETE FROM t');
-- refused: ORDER BY
SELECT pgivm.create_immv('m', 'SELECT i FROM t ORDER BY i');
-- refused: HAVING
SELECT pgivm.create_immv('m', 'SELECT v, count(*) FROM t GROUP BY v HAVING count(*) > 1');
-- refused: without an aggregate
SELECT pgivm.create_immv('m', 'SELECT v FROM t GROUP BY v');
-- refused: LIMIT
SELECT pgivm.create_immv('m', 'SELECT i FROM t LIMIT 5');
-- refused: DISTINCT ON
SELECT pgivm.create_immv('m', 'SELECT DISTINCT ON (i) i FROM t');
-- refused: window
SELECT pgivm.create_immv('m', 'SELECT i, rank() OVER (ORDER BY v) FROM t');
-- refused: FILTER
SELECT pgivm.create_immv('m', 'SELECT count(*) FILTER (WHERE i > 0) FROM t');
-- refused: UNION
SELECT pgivm.create_immv('m', 'SELECT i FROM t UNION ALL SELECT i FROM s');
-- refused: containing an aggregate
SELECT pgivm.create_immv('m', 'SELECT sum(i) * 2 FROM t');
-- refused: including IMMV
SELECT pgivm.create_immv('m', 'SELECT v FROM fine');
-- refused: join condition
SELECT pgivm.create_immv('m', 'SELECT t.i, s.v FROM t LEFT JOIN s ON t.i = s.i');
-- refused: too many column names
SELECT pgivm.create_immv('m (a, b, c)', 'SELECT i FROM t');
INSERT INTO t VALUES (2, 10);
