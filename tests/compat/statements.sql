-- DDL, DML and queries: the lake and the server answer alike, and count the same rows
CREATE TABLE t (id bigint PRIMARY KEY, k text DEFAULT 'none', n numeric(8,2) NOT NULL, x double precision, d date, ts timestamp, b boolean, tags int[]);
CREATE TABLE IF NOT EXISTS t (id int);
INSERT INTO t VALUES (1, 'a', 1.005, 0.5, '2024-02-29', '2024-02-29 12:00:00.5', true, ARRAY[1, 2]), (2, 'b', -1.005, NULL, NULL, NULL, 'no', NULL);
INSERT INTO t (id, n) VALUES (3, 7), (4, 2.345);
INSERT INTO t (n, id, k) SELECT g * 1.5, g + 10, 'g' || g FROM generate_series(1, 4) AS g;
SELECT id, k, n, x, d, ts, b FROM t;
SELECT * FROM t WHERE tags IS NOT NULL;
SELECT g FROM generate_series(5, 1) AS g;
SELECT g FROM generate_series(5, 1, -2) AS g;
UPDATE t SET n = n / 3, k = k || '!' WHERE id < 4;
UPDATE t SET (k, b) = ('both', false) WHERE id = 4;
SELECT id, k, n, b FROM t;
CREATE TABLE s AS SELECT id, n * 2 AS n2 FROM t WHERE id > 10;
UPDATE t SET n = s.n2 + t.n FROM s WHERE s.id = t.id AND s.n2 > 3;
UPDATE t AS target SET x = q.m FROM (SELECT id, max(n2)::double precision AS m FROM s GROUP BY id) AS q WHERE q.id = target.id;
SELECT id, n, x FROM t;
DELETE FROM t USING s WHERE s.id = t.id AND s.n2 < 4;
DELETE FROM t AS gone WHERE gone.id IN (SELECT id FROM s WHERE n2 > 11) RETURNING id, gone.k AS key, n + 1 AS more;
INSERT INTO t (id, n) VALUES (50, 5.5), (51, 6) RETURNING id, n * 2 AS twice;
UPDATE t SET n = n + 1 WHERE id >= 50 RETURNING id, n;
INSERT INTO t (id, n) VALUES (50, 1), (60, 2) ON CONFLICT (id) DO NOTHING;
INSERT INTO t AS mine (id, n) VALUES (50, 1), (61, 2) ON CONFLICT (id) DO UPDATE SET n = excluded.n + mine.n WHERE mine.n > 2;
INSERT INTO t (id, n) VALUES (70, 1), (70, 2) ON CONFLICT DO NOTHING;
SELECT id, n FROM t;
WITH moved AS (DELETE FROM t WHERE id > 49 RETURNING id, n), kept AS (INSERT INTO s SELECT id, n FROM moved RETURNING id) SELECT count(*), (SELECT count(*) FROM t) AS before FROM kept;
SELECT * FROM s;
WITH big AS (SELECT id FROM s WHERE n2 > 3) DELETE FROM s USING big WHERE big.id = s.id;
WITH one AS (SELECT 99 AS id, 1.25 AS n) INSERT INTO s SELECT id, n FROM one;
SELECT DISTINCT ON (b) b, id FROM t ORDER BY b, id DESC;
SELECT k, count(*), sum(n), avg(n), avg(id), min(d), max(ts) FROM t GROUP BY k ORDER BY k;
SELECT id, sum(n) OVER (ORDER BY id), row_number() OVER (ORDER BY n DESC, id), avg(id) OVER () FROM t;
SELECT id, n FROM t ORDER BY x DESC, id LIMIT 2;
SELECT id FROM t UNION SELECT id FROM s EXCEPT SELECT 4;
SELECT t.id, q.n2 FROM t LEFT JOIN LATERAL (SELECT n2 FROM s WHERE s.id > t.id ORDER BY n2 LIMIT 1) AS q ON true;
SELECT x.id FROM (VALUES (1, 'a'), (2, NULL)) AS x(id, l) WHERE x.l IS DISTINCT FROM 'a';
BEGIN;
INSERT INTO t (id, n) VALUES (100, 1);
SAVEPOINT a;
DELETE FROM t;
SELECT count(*) FROM t;
ROLLBACK TO a;
UPDATE t SET n = 0 WHERE id = 100;
COMMIT;
SELECT id, n FROM t;
BEGIN ISOLATION LEVEL SERIALIZABLE;
TRUNCATE t, s;
ABORT;
START TRANSACTION;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
DELETE FROM s WHERE id = 99;
END;
ALTER TABLE s ADD COLUMN note varchar(5) DEFAULT 'new';
ALTER TABLE s RENAME COLUMN n2 TO twice;
SELECT id, twice, note FROM s;
ALTER TABLE s RENAME TO other;
-- refused: no such constraint
CREATE TABLE c (id int UNIQUE);
-- refused: char(n)
CREATE TABLE c (id char(3));
-- refused: has no proven translation
SELECT regexp_replace('a', 'b', 'c');
-- refused: second time
INSERT INTO t (id, n) VALUES (80, 1), (80, 2) ON CONFLICT (id) DO UPDATE SET n = 0;
-- refused: WITH RECURSIVE
WITH RECURSIVE r AS (SELECT 1 AS n) DELETE FROM t USING r WHERE r.n = t.id;
DROP TABLE other;
DROP TABLE IF EXISTS t, other;
