-- What the consumers counted, against the file.  Every number should be 0.
WITH expected AS (
    SELECT path, count(*) AS changes, sum(coalesce(lines_added, 0)) AS lines_added,
        sum(coalesce(lines_deleted, 0)) AS lines_deleted
    FROM file GROUP BY path
)
SELECT 'paths whose totals differ from the file' AS "check", count(*) AS violations
    FROM expected e FULL JOIN totals t USING (path)
    WHERE (e.changes, e.lines_added, e.lines_deleted) IS DISTINCT FROM (t.changes, t.lines_added, t.lines_deleted)
UNION ALL
SELECT 'events of the file, less those counted', (SELECT count(*) FROM file) - sum(events)
    FROM sessions WHERE name ~ 'consumer'
UNION ALL
SELECT 'lag of the group', sum(lag) FROM stream.consumer_lag
