-- The projection "lines", row by row, against the file.  Every number should be 0.
WITH expected AS (
    SELECT path, sum(lines_added) AS added, sum(lines_deleted) AS deleted FROM file GROUP BY path
)
SELECT 'lines: rows that are missing, or too many' AS "check", count(*) AS violations
    FROM expected e FULL JOIN lines l USING (path) WHERE e.path IS NULL OR l.path IS NULL
UNION ALL
SELECT 'lines: rows that differ in the lines added or deleted', count(*)
    FROM expected e JOIN lines l USING (path) WHERE (e.added, e.deleted) IS DISTINCT FROM (l.added, l.deleted)
