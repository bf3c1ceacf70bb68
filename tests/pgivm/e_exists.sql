-- E: EXISTS
CREATE TABLE o (i int, v int);
CREATE TABLE n (i int, w int);
INSERT INTO o VALUES (1, 10), (2, 20), (2, 20), (3, 30);
INSERT INTO n VALUES (1, 1), (9, 9);
SELECT pgivm.create_immv('mv_exists', 'SELECT o.i, o.v FROM o WHERE EXISTS (SELECT 1 FROM n WHERE n.i = o.i)');
SELECT pgivm.create_immv('mv_both', 'SELECT o.i, o.v FROM o WHERE v > 10 AND EXISTS (SELECT 1 FROM n WHERE n.i = o.i)');
SELECT pgivm.create_immv('mv_set', 'SELECT DISTINCT o.i FROM o WHERE EXISTS (SELECT 1 FROM n WHERE n.i = o.i)');
INSERT INTO o VALUES (1, 10), (1, 10), (7, 70);
INSERT INTO n VALUES (1, 2);
INSERT INTO n VALUES (2, 1);
INSERT INTO n VALUES (7, 1);
UPDATE o SET i = 7 WHERE i = 3;
UPDATE n SET i = 8 WHERE i = 2;
UPDATE n SET w = w + 1;
DELETE FROM o WHERE i = 1 AND v = 10;
DELETE FROM n WHERE i IN (1, 7);
INSERT INTO n VALUES (1, 1), (2, 1), (7, 1);
