-- F and G: subqueries in FROM and common table expressions
CREATE TABLE a (i int, v int);
CREATE TABLE b (i int, w int);
INSERT INTO a VALUES (1, 10), (2, 20), (3, 30);
INSERT INTO b VALUES (1, 1), (2, 2), (4, 4);
SELECT pgivm.create_immv('mv_f1', 'SELECT a.i, a.v, q.w FROM a, (SELECT * FROM b) AS q WHERE a.i = q.i');
SELECT pgivm.create_immv('mv_f3', 'SELECT q.i, q.w FROM (SELECT a.i, x.w FROM a JOIN (SELECT * FROM b WHERE w > 0) AS x ON x.i = a.i) AS q');
SELECT pgivm.create_immv('mv_g2', 'WITH p AS (SELECT * FROM a WHERE v > 0), q AS (SELECT * FROM b) SELECT p.v, q.w FROM p JOIN q ON p.i = q.i');
SELECT pgivm.create_immv('mv_g3', 'WITH p AS (SELECT * FROM a) SELECT z.v FROM (WITH q AS (SELECT * FROM b) SELECT p.v FROM p, q WHERE p.i = q.i) AS z');
SELECT pgivm.create_immv('mv_g8 (v1, v2)', 'WITH p AS (SELECT * FROM a) SELECT x.v, y.v FROM p AS x JOIN p AS y ON x.i = y.i');
INSERT INTO a VALUES (4, 40);
INSERT INTO b VALUES (3, 3), (1, 11);
WITH x AS (INSERT INTO a VALUES (1, 11) RETURNING 0), y AS (INSERT INTO b VALUES (2, 22) RETURNING 0), z AS (DELETE FROM b WHERE i = 4 RETURNING 0) SELECT 1;
DELETE FROM a WHERE i = 1;
