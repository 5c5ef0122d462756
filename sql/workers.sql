-- What worker_status shows of this database, and whom.
CREATE FUNCTION wait_for_manager() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..6000 LOOP
		IF EXISTS (SELECT FROM stream.worker_status
				WHERE type = 'stream manager' AND database = current_database() AND state = 'idle') THEN
			RETURN 'idle';
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN 'no manager';
END $$;
SELECT wait_for_manager();
SELECT type, database = current_database() AS here, state, activity, started_at <= now() AS started, retry_at, restarts >= 0 AS restarts,
	(last_error IS NULL) = (last_error_at IS NULL) AS error_has_time
FROM stream.worker_status WHERE database = current_database();
SELECT s.state, s.activity, s.database, a.backend_type = s.type AS type, a.datname IS NULL AS nowhere
FROM stream.worker_status s JOIN pg_stat_activity a USING (pid) WHERE type = 'stream launcher';
SELECT a.backend_type, a.datname = current_database() AS here
FROM stream.worker_status s JOIN pg_stat_activity a USING (pid) WHERE s.type = 'stream manager' AND s.database = current_database();

-- Others than monitoring roles see this database's.
CREATE ROLE regress_workers_user;
CREATE ROLE regress_workers_monitor IN ROLE pg_monitor;
SET ROLE regress_workers_user;
SELECT DISTINCT type, database = current_database() AS here FROM stream.worker_status;
SET ROLE regress_workers_monitor;
SELECT type FROM stream.worker_status WHERE type = 'stream launcher';
RESET ROLE;
DROP ROLE regress_workers_user, regress_workers_monitor;

-- What the workers must know of cannot be left to a prepared transaction.
BEGIN;
DROP EXTENSION stream CASCADE;
\set VERBOSITY terse
PREPARE TRANSACTION 'dropped';
\set VERBOSITY default

SELECT area, used > 0 AS used, capacity, bytes > 0 AS bytes, setting FROM stream.memory_status WHERE area = 'databases';
