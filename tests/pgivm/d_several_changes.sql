-- D: self joins, several changes in one statement, savepoints
CREATE TABLE r (i int, v int);
CREATE TABLE s (i int, v int);
INSERT INTO r VALUES (1, 10), (2, 20), (3, 30);
INSERT INTO s VALUES (1, 100), (2, 200), (3, 300);
SELECT pgivm.create_immv('mv_self (v1, v2)', 'SELECT a.v, b.v FROM r AS a JOIN r AS b ON a.i = b.i');
SELECT pgivm.create_immv('mv_two (v1, v2)', 'SELECT r.v, s.v FROM r JOIN s USING (i)');
WITH ri1 AS (INSERT INTO r VALUES (1, 11) RETURNING 1),
     ri2 AS (INSERT INTO r VALUES (3, 33) RETURNING 1),
     si AS (INSERT INTO s VALUES (2, 222) RETURNING 1),
     ru AS (UPDATE r SET v = v + 100 WHERE i = 2 RETURNING 1),
     sd AS (DELETE FROM s WHERE v = 300 RETURNING 1)
SELECT (SELECT count(*) FROM r) AS before;
BEGIN;
SAVEPOINT p1;
INSERT INTO r VALUES (4, 40);
RELEASE SAVEPOINT p1;
INSERT INTO r VALUES (4, 44);
SAVEPOINT p2;
DELETE FROM r;
ROLLBACK TO SAVEPOINT p2;
COMMIT;
UPDATE r SET v = s.v FROM s WHERE s.i = r.i AND s.v = 100;
DELETE FROM r USING s WHERE r.i = s.i AND s.v = 200;
