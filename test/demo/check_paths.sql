-- The projection "paths", row by row, against the file.  Every number should be 0.
WITH expected AS (
    SELECT path, count(*) AS number, range_agg(int8range(change_seq, change_seq, '[]')) AS changes,
        (array_agg(author ORDER BY change_seq DESC))[1] AS last_author
    FROM file GROUP BY path
), found AS (
    SELECT path, (SELECT sum(upper(r) - lower(r)) FROM unnest(changes) r) AS number, changes, last_author
    FROM paths
)
SELECT 'paths: rows that are missing, or too many' AS "check", count(*) AS violations
    FROM expected e FULL JOIN found f USING (path) WHERE e.path IS NULL OR f.path IS NULL
UNION ALL
SELECT 'paths: rows that differ in the number of changes', count(*)
    FROM expected e JOIN found f USING (path) WHERE e.number IS DISTINCT FROM f.number
UNION ALL
SELECT 'paths: rows that differ in which changes these are', count(*)
    FROM expected e JOIN found f USING (path) WHERE e.changes IS DISTINCT FROM f.changes
UNION ALL
SELECT 'paths: rows that differ in the last author', count(*)
    FROM expected e JOIN found f USING (path) WHERE e.last_author IS DISTINCT FROM f.last_author
