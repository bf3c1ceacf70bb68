-- A4, C9: a function in FROM; a table of the same name in another schema
SELECT pgivm.create_immv('of_function', 'SELECT i, i * 2 AS twice FROM generate_series(1, 3) AS g(i)');
CREATE TABLE base (v int);
INSERT INTO base VALUES (1), (2), (3), (4);
SELECT pgivm.create_immv('low', 'SELECT min(v) AS low FROM base');
DELETE FROM base WHERE v = 1;
CREATE SCHEMA other;
CREATE TABLE other.base (v int);
INSERT INTO other.base VALUES (-100), (2);
DELETE FROM base WHERE v = 2;
UPDATE other.base SET v = -200 WHERE v = 2;
INSERT INTO base VALUES (0);
