/* stream--0.1.sql */

-- complain if the script is sourced in psql rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION stream" to load this file. \quit

CREATE SCHEMA stream;
COMMENT ON SCHEMA stream IS 'functions and views of the extension stream';
CREATE SCHEMA streams;
COMMENT ON SCHEMA streams IS 'one foreign table for each stream';
CREATE SCHEMA stream_internal;
COMMENT ON SCHEMA stream_internal IS 'catalog and segments of the extension stream; not for direct use';

GRANT USAGE ON SCHEMA stream, streams TO PUBLIC;

--
-- The position of a record: partition and offset.
--

CREATE TYPE stream.record_position;

CREATE FUNCTION stream_internal.record_position_in(cstring) RETURNS stream.record_position
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_in';
COMMENT ON FUNCTION stream_internal.record_position_in(cstring) IS 'I/O';

CREATE FUNCTION stream_internal.record_position_out(stream.record_position) RETURNS cstring
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_out';
COMMENT ON FUNCTION stream_internal.record_position_out(stream.record_position) IS 'I/O';

CREATE FUNCTION stream_internal.record_position_recv(internal) RETURNS stream.record_position
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_recv';
COMMENT ON FUNCTION stream_internal.record_position_recv(internal) IS 'I/O';

CREATE FUNCTION stream_internal.record_position_send(stream.record_position) RETURNS bytea
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_send';
COMMENT ON FUNCTION stream_internal.record_position_send(stream.record_position) IS 'I/O';

CREATE TYPE stream.record_position (
	INPUT = stream_internal.record_position_in,
	OUTPUT = stream_internal.record_position_out,
	RECEIVE = stream_internal.record_position_recv,
	SEND = stream_internal.record_position_send,
	INTERNALLENGTH = 16,
	ALIGNMENT = double
);
COMMENT ON TYPE stream.record_position IS
	'position of a record in its stream, written partition:offset, for example 3:1042; ordered by partition, then offset';

CREATE FUNCTION stream.record_position("partition" int, record_offset bigint) RETURNS stream.record_position
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_make';
COMMENT ON FUNCTION stream.record_position(int, bigint) IS 'the position of that partition and offset, neither negative';

CREATE FUNCTION stream.partition_of("position" stream.record_position) RETURNS int
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_partition_of';
COMMENT ON FUNCTION stream.partition_of(stream.record_position) IS 'partition of a position';

CREATE FUNCTION stream.offset_of("position" stream.record_position) RETURNS bigint
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_offset_of';
COMMENT ON FUNCTION stream.offset_of(stream.record_position) IS 'offset of a position within its partition';

CREATE FUNCTION stream_internal.record_position_eq(stream.record_position, stream.record_position) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_eq';
COMMENT ON FUNCTION stream_internal.record_position_eq(stream.record_position, stream.record_position) IS 'implementation of = operator';
CREATE FUNCTION stream_internal.record_position_ne(stream.record_position, stream.record_position) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_ne';
COMMENT ON FUNCTION stream_internal.record_position_ne(stream.record_position, stream.record_position) IS 'implementation of <> operator';
CREATE FUNCTION stream_internal.record_position_lt(stream.record_position, stream.record_position) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_lt';
COMMENT ON FUNCTION stream_internal.record_position_lt(stream.record_position, stream.record_position) IS 'implementation of < operator';
CREATE FUNCTION stream_internal.record_position_le(stream.record_position, stream.record_position) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_le';
COMMENT ON FUNCTION stream_internal.record_position_le(stream.record_position, stream.record_position) IS 'implementation of <= operator';
CREATE FUNCTION stream_internal.record_position_gt(stream.record_position, stream.record_position) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_gt';
COMMENT ON FUNCTION stream_internal.record_position_gt(stream.record_position, stream.record_position) IS 'implementation of > operator';
CREATE FUNCTION stream_internal.record_position_ge(stream.record_position, stream.record_position) RETURNS boolean
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_ge';
COMMENT ON FUNCTION stream_internal.record_position_ge(stream.record_position, stream.record_position) IS 'implementation of >= operator';
CREATE FUNCTION stream_internal.record_position_cmp(stream.record_position, stream.record_position) RETURNS int
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_cmp';
COMMENT ON FUNCTION stream_internal.record_position_cmp(stream.record_position, stream.record_position) IS 'less-equal-greater';
CREATE FUNCTION stream_internal.record_position_hash(stream.record_position) RETURNS int
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_hash';
COMMENT ON FUNCTION stream_internal.record_position_hash(stream.record_position) IS 'hash';
CREATE FUNCTION stream_internal.record_position_hash_extended(stream.record_position, bigint) RETURNS bigint
	LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_record_position_hash_extended';
COMMENT ON FUNCTION stream_internal.record_position_hash_extended(stream.record_position, bigint) IS 'hash';

CREATE OPERATOR stream.= (
	LEFTARG = stream.record_position, RIGHTARG = stream.record_position,
	FUNCTION = stream_internal.record_position_eq, COMMUTATOR = OPERATOR(stream.=), NEGATOR = OPERATOR(stream.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
COMMENT ON OPERATOR stream.= (stream.record_position, stream.record_position) IS 'equal';
CREATE OPERATOR stream.<> (
	LEFTARG = stream.record_position, RIGHTARG = stream.record_position,
	FUNCTION = stream_internal.record_position_ne, COMMUTATOR = OPERATOR(stream.<>), NEGATOR = OPERATOR(stream.=),
	RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR stream.<> (stream.record_position, stream.record_position) IS 'not equal';
CREATE OPERATOR stream.< (
	LEFTARG = stream.record_position, RIGHTARG = stream.record_position,
	FUNCTION = stream_internal.record_position_lt, COMMUTATOR = OPERATOR(stream.>), NEGATOR = OPERATOR(stream.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
COMMENT ON OPERATOR stream.< (stream.record_position, stream.record_position) IS 'less than';
CREATE OPERATOR stream.<= (
	LEFTARG = stream.record_position, RIGHTARG = stream.record_position,
	FUNCTION = stream_internal.record_position_le, COMMUTATOR = OPERATOR(stream.>=), NEGATOR = OPERATOR(stream.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
COMMENT ON OPERATOR stream.<= (stream.record_position, stream.record_position) IS 'less than or equal';
CREATE OPERATOR stream.> (
	LEFTARG = stream.record_position, RIGHTARG = stream.record_position,
	FUNCTION = stream_internal.record_position_gt, COMMUTATOR = OPERATOR(stream.<), NEGATOR = OPERATOR(stream.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel);
COMMENT ON OPERATOR stream.> (stream.record_position, stream.record_position) IS 'greater than';
CREATE OPERATOR stream.>= (
	LEFTARG = stream.record_position, RIGHTARG = stream.record_position,
	FUNCTION = stream_internal.record_position_ge, COMMUTATOR = OPERATOR(stream.<=), NEGATOR = OPERATOR(stream.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel);
COMMENT ON OPERATOR stream.>= (stream.record_position, stream.record_position) IS 'greater than or equal';

CREATE OPERATOR FAMILY stream.record_position_ops USING btree;
COMMENT ON OPERATOR FAMILY stream.record_position_ops USING btree IS 'by partition, then offset';
CREATE OPERATOR FAMILY stream.record_position_ops USING hash;
COMMENT ON OPERATOR FAMILY stream.record_position_ops USING hash IS 'by partition and offset';
CREATE OPERATOR CLASS stream.record_position_ops
	DEFAULT FOR TYPE stream.record_position USING btree FAMILY stream.record_position_ops AS
		OPERATOR 1 stream.<, OPERATOR 2 stream.<=, OPERATOR 3 stream.=, OPERATOR 4 stream.>=, OPERATOR 5 stream.>,
		FUNCTION 1 stream_internal.record_position_cmp(stream.record_position, stream.record_position);
COMMENT ON OPERATOR CLASS stream.record_position_ops USING btree IS 'by partition, then offset';
CREATE OPERATOR CLASS stream.record_position_ops
	DEFAULT FOR TYPE stream.record_position USING hash FAMILY stream.record_position_ops AS
		OPERATOR 1 stream.=,
		FUNCTION 1 stream_internal.record_position_hash(stream.record_position),
		FUNCTION 2 stream_internal.record_position_hash_extended(stream.record_position, bigint);
COMMENT ON OPERATOR CLASS stream.record_position_ops USING hash IS 'by partition and offset';

--
-- Catalog.  Written by the extension's C code only.
--

CREATE SEQUENCE stream_internal.stream_id_seq AS int;
COMMENT ON SEQUENCE stream_internal.stream_id_seq IS 'numbers of streams, never used twice';

CREATE TABLE stream_internal.streams (
	stream_id int NOT NULL,
	partitions int NOT NULL,
	stream name NOT NULL,
	created_at timestamptz NOT NULL,
	value_type text NOT NULL,
	compression text NOT NULL,
	encoding text NOT NULL,
	byte_order text NOT NULL,
	segment_bytes bigint NOT NULL,
	segment_age bigint NOT NULL,
	CONSTRAINT streams_pkey PRIMARY KEY (stream_id),
	CONSTRAINT streams_stream_key UNIQUE (stream)
);
COMMENT ON TABLE stream_internal.streams IS 'one row for each stream; its foreign table is streams.<stream>';
COMMENT ON COLUMN stream_internal.streams.encoding IS 'server encoding of keys and values as stored';
COMMENT ON COLUMN stream_internal.streams.byte_order IS 'byte order of batches as stored: little or big';
COMMENT ON COLUMN stream_internal.streams.segment_bytes IS 'size at which a segment is rolled; 0: at none';
COMMENT ON COLUMN stream_internal.streams.segment_age IS 'milliseconds after its first record at which a segment is rolled; 0: at none';

CREATE TABLE stream_internal.partitions (
	stream_id int NOT NULL,
	"partition" int NOT NULL,
	log_start_offset bigint NOT NULL,
	CONSTRAINT partitions_pkey PRIMARY KEY (stream_id, "partition")
);
COMMENT ON TABLE stream_internal.partitions IS 'one row for each partition of a stream';
COMMENT ON COLUMN stream_internal.partitions.log_start_offset IS 'no record below this offset is read any more';

CREATE TABLE stream_internal.offset_gaps (
	stream_id int NOT NULL,
	"partition" int NOT NULL,
	base_offset bigint NOT NULL,
	end_offset bigint NOT NULL,
	CONSTRAINT offset_gaps_pkey PRIMARY KEY (stream_id, "partition", base_offset)
);
COMMENT ON TABLE stream_internal.offset_gaps IS
	'offsets base_offset <= offset < end_offset that a server start has skipped, since they may have been issued before; they do not count as lag';

CREATE TABLE stream_internal.segments (
	stream_id int NOT NULL,
	segment_no int NOT NULL,
	created_at timestamptz NOT NULL,
	sealed_at timestamptz,
	CONSTRAINT segments_pkey PRIMARY KEY (stream_id, segment_no)
);
COMMENT ON TABLE stream_internal.segments IS
	'one row for each segment, stored in the table stream_internal.s<stream_id>_<segment_no>; the newest is active';
COMMENT ON COLUMN stream_internal.segments.sealed_at IS 'null: publishers may still write to it';

CREATE TABLE stream_internal.segment_ranges (
	stream_id int NOT NULL,
	"partition" int NOT NULL,
	segment_no int NOT NULL,
	batches int NOT NULL,
	base_offset bigint NOT NULL,
	end_offset bigint NOT NULL,
	records bigint NOT NULL,
	bytes bigint NOT NULL,
	first_published_at timestamptz NOT NULL,
	last_published_at timestamptz NOT NULL,
	CONSTRAINT segment_ranges_pkey PRIMARY KEY (stream_id, "partition", segment_no)
);
COMMENT ON TABLE stream_internal.segment_ranges IS
	'what a sealed segment holds of each partition, in offsets base_offset <= offset < end_offset; no row: nothing';

CREATE SEQUENCE stream_internal.group_id_seq AS int;
COMMENT ON SEQUENCE stream_internal.group_id_seq IS 'numbers of consumer groups, never used twice';

CREATE TABLE stream_internal.consumer_groups (
	group_id int NOT NULL,
	stream_id int NOT NULL,
	consumer_group name NOT NULL,
	on_offset_out_of_range text NOT NULL,
	max_poll_interval int NOT NULL,
	paused boolean NOT NULL,
	created_at timestamptz NOT NULL,
	CONSTRAINT consumer_groups_pkey PRIMARY KEY (group_id),
	CONSTRAINT consumer_groups_stream_key UNIQUE (stream_id, consumer_group)
);
COMMENT ON TABLE stream_internal.consumer_groups IS 'one row for each consumer group of a stream';
COMMENT ON COLUMN stream_internal.consumer_groups.max_poll_interval IS 'in milliseconds';

-- appended to, and folded now and then: see consumer/offsets.c
CREATE TABLE stream_internal.offsets (
	group_id int NOT NULL,
	"partition" int NOT NULL,
	seq bigint NOT NULL,
	folded_seq bigint NOT NULL,
	committed_offset bigint NOT NULL,
	records_skipped bigint NOT NULL,
	committed_at timestamptz NOT NULL,
	CONSTRAINT offsets_pkey PRIMARY KEY (group_id, "partition", seq)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
COMMENT ON TABLE stream_internal.offsets IS 'commits of consumer groups; the one with the highest seq counts';
COMMENT ON COLUMN stream_internal.offsets.folded_seq IS 'rows with a lower seq have been deleted';
COMMENT ON COLUMN stream_internal.offsets.committed_offset IS 'the next offset to read';
COMMENT ON COLUMN stream_internal.offsets.records_skipped IS 'offsets passed over because retention had removed them';

CREATE SEQUENCE stream_internal.dead_letter_id_seq;
COMMENT ON SEQUENCE stream_internal.dead_letter_id_seq IS 'numbers of dead letters';

CREATE TABLE stream_internal.dead_letters (
	dead_letter_id bigint NOT NULL,
	group_id int NOT NULL,
	"partition" int NOT NULL,
	record_offset bigint NOT NULL,
	published_at timestamptz NOT NULL,
	key text,
	value jsonb,
	value_bytes bytea,
	headers jsonb,
	reason text NOT NULL,
	sqlstate text,
	user_name name NOT NULL,
	created_at timestamptz NOT NULL,
	retries int NOT NULL,
	CONSTRAINT dead_letters_pkey PRIMARY KEY (dead_letter_id),
	CONSTRAINT dead_letters_group_key UNIQUE (group_id, dead_letter_id)
);
COMMENT ON TABLE stream_internal.dead_letters IS 'records that a consumer group or projection has passed without processing them';
COMMENT ON COLUMN stream_internal.dead_letters.group_id IS 'of a consumer group or projection';
COMMENT ON COLUMN stream_internal.dead_letters.value_bytes IS 'the value in streams of value type bytea; both are null in a tombstone';
COMMENT ON COLUMN stream_internal.dead_letters.sqlstate IS 'of the error; null: passed by skip_record';

-- Roles, schemas and tables by name: they are what a dump can restore.
CREATE TABLE stream_internal.projections (
	projection_id int NOT NULL,
	stream_id int NOT NULL,
	projection name NOT NULL,
	owner name NOT NULL,
	owner_identity text NOT NULL,
	search_path text NOT NULL,
	target_schema name,
	target_table name,
	key name[],
	query text,
	merge jsonb,
	statement text,
	apply_sql text NOT NULL,
	replay_safe boolean NOT NULL,
	on_error text NOT NULL,
	workers int NOT NULL,
	batch_records int NOT NULL,
	paused boolean NOT NULL,
	created_at timestamptz NOT NULL,
	CONSTRAINT projections_pkey PRIMARY KEY (projection_id),
	CONSTRAINT projections_projection_key UNIQUE (projection)
);
CREATE INDEX projections_stream_id_idx ON stream_internal.projections (stream_id);
COMMENT ON INDEX stream_internal.projections_stream_id_idx IS 'the projections of a stream';
COMMENT ON TABLE stream_internal.projections IS 'one row for each projection';
COMMENT ON COLUMN stream_internal.projections.projection_id IS 'a number that no consumer group has: its offsets are in stream_internal.offsets';
COMMENT ON COLUMN stream_internal.projections.owner_identity IS 'system identifier and number: in that server, another role of the same name is not the owner';
COMMENT ON COLUMN stream_internal.projections.apply_sql IS 'one statement over the relation batch, made from query and merge, or the statement';
COMMENT ON COLUMN stream_internal.projections.batch_records IS 'zero: chosen as it goes';
CREATE TABLE stream_internal.group_epochs (
	group_id int NOT NULL,
	last_epoch int NOT NULL,
	group_epoch int NOT NULL,
	target_epoch int NOT NULL,
	CONSTRAINT group_epochs_pkey PRIMARY KEY (group_id)
);
COMMENT ON TABLE stream_internal.group_epochs IS 'one row for each consumer group that has had members';
COMMENT ON COLUMN stream_internal.group_epochs.last_epoch IS 'the highest epoch that a member was given';
COMMENT ON COLUMN stream_internal.group_epochs.group_epoch IS 'of the list of members';
COMMENT ON COLUMN stream_internal.group_epochs.target_epoch IS 'of the list that the target assignment was computed for';

CREATE TABLE stream_internal.members (
	group_id int NOT NULL,
	member_id name NOT NULL,
	instance_id name,
	member_epoch int NOT NULL,
	previous_epoch int NOT NULL,
	joined_epoch int NOT NULL,
	state text NOT NULL,
	assigned int[] NOT NULL,
	revoking int[] NOT NULL,
	epochs int[] NOT NULL,
	target int[] NOT NULL,
	session_timeout int NOT NULL,
	max_poll_interval int NOT NULL,
	joined_at timestamptz NOT NULL,
	revoking_since timestamptz,
	CONSTRAINT members_pkey PRIMARY KEY (group_id, member_id)
);
COMMENT ON TABLE stream_internal.members IS 'one row for each member of a consumer group; its heartbeats are in shared memory';
COMMENT ON COLUMN stream_internal.members.instance_id IS 'of a static member; null: a dynamic one';
COMMENT ON COLUMN stream_internal.members.previous_epoch IS 'what its client had when member_epoch was set; 0: it joined then';
COMMENT ON COLUMN stream_internal.members.joined_epoch IS 'the first epoch of its client: lower ones are of another client';
COMMENT ON COLUMN stream_internal.members.epochs IS 'member_epoch when each partition of assigned, then of revoking, was given';
COMMENT ON COLUMN stream_internal.members.target IS 'its part of the target assignment';
COMMENT ON COLUMN stream_internal.members.session_timeout IS 'in milliseconds, as max_poll_interval';
COMMENT ON COLUMN stream_internal.members.revoking_since IS 'when it was told to let go of something; null: it has nothing to';

-- not dumped: whether a batch fails is found out anew
CREATE TABLE stream_internal.projection_errors (
	projection_id int NOT NULL,
	"partition" int NOT NULL,
	record_offset bigint NOT NULL,
	stopped boolean NOT NULL,
	sqlstate text NOT NULL,
	message text NOT NULL,
	detail text,
	hint text,
	failing_since timestamptz NOT NULL,
	failed_at timestamptz NOT NULL,
	next_retry_at timestamptz NOT NULL,
	retries int NOT NULL,
	CONSTRAINT projection_errors_pkey PRIMARY KEY (projection_id, "partition")
);
COMMENT ON TABLE stream_internal.projection_errors IS 'one row for each partition in which a projection does not get on';

-- not dumped: after a restore, tables have other numbers
CREATE TABLE stream_internal.projection_targets (
	projection_id int NOT NULL,
	target oid NOT NULL,
	CONSTRAINT projection_targets_pkey PRIMARY KEY (projection_id)
);
COMMENT ON TABLE stream_internal.projection_targets IS 'the table that each projection is applied to; none: whichever has the name';
COMMENT ON COLUMN stream_internal.projection_errors.record_offset IS 'the failing record, or the first of the batch';
COMMENT ON COLUMN stream_internal.projection_errors.stopped IS 'true: by that record; false: by circumstances';

SELECT pg_catalog.pg_extension_config_dump('stream_internal.stream_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.dead_letter_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.dead_letters', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.group_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.consumer_groups', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.group_epochs', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.members', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.offsets', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.projections', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.streams', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.partitions', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.offset_gaps', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.segments', '');
SELECT pg_catalog.pg_extension_config_dump('stream_internal.segment_ranges', '');

--
-- The foreign-data wrapper behind streams.<stream>.
--

CREATE FUNCTION stream_internal.fdw_handler() RETURNS fdw_handler
	LANGUAGE c STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_fdw_handler';
COMMENT ON FUNCTION stream_internal.fdw_handler() IS 'handler of the foreign-data wrapper stream';

CREATE FUNCTION stream_internal.fdw_validator(text[], oid) RETURNS void
	LANGUAGE c STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_fdw_validator';
COMMENT ON FUNCTION stream_internal.fdw_validator(text[], oid) IS 'the wrapper stream has no options';

CREATE FOREIGN DATA WRAPPER stream HANDLER stream_internal.fdw_handler VALIDATOR stream_internal.fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER stream IS 'streams as tables';
CREATE SERVER stream FOREIGN DATA WRAPPER stream;
COMMENT ON SERVER stream IS 'this database''s streams';
-- create_stream makes the foreign table as its caller; a table that is not in the catalog is refused at use
GRANT USAGE ON FOREIGN SERVER stream TO PUBLIC;

--
-- Streams
--

CREATE FUNCTION stream.create_stream(stream text, partitions int = 1, value_type text = 'jsonb', compression text = 'lz4',
	segment_bytes bigint = 1073741824, segment_age interval = '7 days')
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_create_stream';
COMMENT ON FUNCTION stream.create_stream(text, int, text, text, bigint, interval) IS
	'creates a stream of 1 to 1024 partitions with values of type jsonb or bytea, compressed by lz4 or none; needs CREATE on schema streams';

CREATE FUNCTION stream.alter_stream(stream text, partitions int = NULL, compression text = NULL,
	segment_bytes bigint = NULL, segment_age interval = NULL)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_alter_stream';
COMMENT ON FUNCTION stream.alter_stream(text, int, text, bigint, interval) IS
	'changes a stream; null keeps a value; the number of partitions is fixed, since a key''s partition follows from it; needs ownership';

CREATE FUNCTION stream.drop_stream(stream text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_drop_stream';
COMMENT ON FUNCTION stream.drop_stream(text) IS
	'drops a stream with its log, after waiting for its open publishers and readers; needs ownership';

CREATE PROCEDURE stream.roll_segment(stream text)
	LANGUAGE c AS 'MODULE_PATHNAME', 'stream_roll_segment';
COMMENT ON PROCEDURE stream.roll_segment(text) IS
	'starts a new segment unless the active one is empty, and seals those that no open publisher writes to; not in a transaction block; needs ownership';

CREATE FUNCTION stream.verify_log(stream text,
	OUT segment_no int, OUT "partition" int, OUT record_offset bigint, OUT finding text)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_verify_log';
COMMENT ON FUNCTION stream.verify_log(text) IS
	'reads every batch of a stream and returns one row for each finding: damage, wrong order, overlapping ranges; no row when sound';

--
-- Publish
--

CREATE FUNCTION stream.publish(stream text, key text, value jsonb, headers jsonb = NULL, "partition" int = NULL)
	RETURNS stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_publish_jsonb';
COMMENT ON FUNCTION stream.publish(text, text, jsonb, jsonb, int) IS
	'appends a record at the transaction''s commit and returns its position; partition null: by the key, or spread evenly without one; needs INSERT';

CREATE FUNCTION stream.publish(stream text, key text, value json, headers jsonb = NULL, "partition" int = NULL)
	RETURNS stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_publish_json';
COMMENT ON FUNCTION stream.publish(text, text, json, jsonb, int) IS 'publish of a value given as json';

CREATE FUNCTION stream.publish(stream text, key text, value text, headers jsonb = NULL, "partition" int = NULL)
	RETURNS stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_publish_text';
COMMENT ON FUNCTION stream.publish(text, text, text, jsonb, int) IS 'publish of a value given as text, which is parsed as JSON';

CREATE FUNCTION stream.publish_bytes(stream text, key text, value bytea, headers jsonb = NULL, "partition" int = NULL)
	RETURNS stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_publish_bytes';
COMMENT ON FUNCTION stream.publish_bytes(text, text, bytea, jsonb, int) IS 'publish to a stream of value type bytea';

CREATE FUNCTION stream.publish_tombstone(stream text, key text, headers jsonb = NULL)
	RETURNS stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_publish_tombstone';
COMMENT ON FUNCTION stream.publish_tombstone(text, text, jsonb) IS
	'appends a record without a value, which says that the key is gone; the key must not be null';

CREATE FUNCTION stream.publish_batch(stream text, keys text[], record_values jsonb[], headers jsonb[] = NULL)
	RETURNS SETOF stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'stream_publish_batch';
COMMENT ON FUNCTION stream.publish_batch(text, text[], jsonb[], jsonb[]) IS
	'publishes many records at once and returns their positions in input order; keys or headers null: none for any record';

CREATE FUNCTION stream.publish_bytes_batch(stream text, keys text[], record_values bytea[], headers jsonb[] = NULL)
	RETURNS SETOF stream.record_position
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'stream_publish_bytes_batch';
COMMENT ON FUNCTION stream.publish_bytes_batch(text, text[], bytea[], jsonb[]) IS 'publish_batch to a stream of value type bytea';

--
-- Read
--

CREATE FUNCTION stream.read(stream text, "partition" int, from_offset bigint = NULL,
	max_records int = 100, max_bytes bigint = 1048576,
	OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value jsonb, OUT headers jsonb)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_read';
COMMENT ON FUNCTION stream.read(text, int, bigint, int, bigint) IS
	'records of a partition from an offset on (null: the log start) below the high watermark, at most max_records and about max_bytes, null: no limit; needs SELECT';

CREATE FUNCTION stream.read_bytes(stream text, "partition" int, from_offset bigint = NULL,
	max_records int = 100, max_bytes bigint = 1048576,
	OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value bytea, OUT headers jsonb)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_read_bytes';
COMMENT ON FUNCTION stream.read_bytes(text, int, bigint, int, bigint) IS 'read from a stream of value type bytea';

CREATE FUNCTION stream.offset_at(stream text, "partition" int, "at" timestamptz) RETURNS bigint
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_offset_at';
COMMENT ON FUNCTION stream.offset_at(text, int, timestamptz) IS
	'offset of the first record published at or after that time; the high watermark when there is none; needs SELECT';

CREATE FUNCTION stream.wait_for_offset(stream text, "position" stream.record_position, timeout interval = '5 s') RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_wait_for_offset';
COMMENT ON FUNCTION stream.wait_for_offset(text, stream.record_position, interval) IS
	'waits until the high watermark has passed that position; false when the timeout came first; needs SELECT';

--
-- Consumer groups
--

CREATE FUNCTION stream.create_consumer_group(stream text, consumer_group text, start text = 'earliest',
	on_offset_out_of_range text = 'error', max_poll_interval interval = '5 min')
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_create_consumer_group';
COMMENT ON FUNCTION stream.create_consumer_group(text, text, text, text, interval) IS
	'creates a consumer group that starts at: earliest, latest, offset <n>, datetime <timestamp> or duration <interval> (so long ago); needs SELECT';

CREATE FUNCTION stream.alter_consumer_group(stream text, consumer_group text,
	on_offset_out_of_range text = NULL, max_poll_interval interval = NULL)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_alter_consumer_group';
COMMENT ON FUNCTION stream.alter_consumer_group(text, text, text, interval) IS 'changes a consumer group; null keeps a value; needs SELECT';

CREATE FUNCTION stream.drop_consumer_group(stream text, consumer_group text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_drop_consumer_group';
COMMENT ON FUNCTION stream.drop_consumer_group(text, text) IS
	'drops a consumer group with its offsets, after waiting for consumers in mid-transaction; needs SELECT';

CREATE FUNCTION stream.pause_consumer_group(stream text, consumer_group text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_pause_consumer_group';
COMMENT ON FUNCTION stream.pause_consumer_group(text, text) IS 'makes consume return nothing until the group is resumed; needs SELECT';

CREATE FUNCTION stream.resume_consumer_group(stream text, consumer_group text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_resume_consumer_group';
COMMENT ON FUNCTION stream.resume_consumer_group(text, text) IS 'ends a pause; needs SELECT';

CREATE FUNCTION stream.consume(stream text, consumer_group text,
	max_records int = 100, max_bytes bigint = 1048576, autocommit boolean = false,
	OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value jsonb, OUT headers jsonb)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_consume';
COMMENT ON FUNCTION stream.consume(text, text, int, bigint, boolean) IS
	'the group''s next records of partitions that nobody else is processing; their offsets commit with the transaction; needs SELECT';

CREATE FUNCTION stream.consume_bytes(stream text, consumer_group text,
	max_records int = 100, max_bytes bigint = 1048576, autocommit boolean = false,
	OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value bytea, OUT headers jsonb)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_consume_bytes';
COMMENT ON FUNCTION stream.consume_bytes(text, text, int, bigint, boolean) IS 'consume from a stream of value type bytea';

CREATE FUNCTION stream.wait_for_records(stream text, consumer_group text, timeout interval = '5 s',
	member_id text = NULL, after stream.record_position[] = NULL) RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_wait_for_records';
COMMENT ON FUNCTION stream.wait_for_records(text, text, interval, text, stream.record_position[]) IS
	'waits until the group has records in a partition that nobody is processing, or a member, which is alive meanwhile, something to poll or a change to hear of; false when the timeout came first; needs SELECT';

CREATE FUNCTION stream.reset_offsets(stream text, consumer_group text, target text, partitions int[] = NULL,
	execute boolean = false, force boolean = false,
	OUT "partition" int, OUT current_offset bigint, OUT new_offset bigint, OUT note text)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_reset_offsets';
COMMENT ON FUNCTION stream.reset_offsets(text, text, text, int[], boolean, boolean) IS
	'shows, and with execute sets, a group''s offsets: earliest, latest, current, offset <n>, shift <n>, datetime <timestamp>, duration <interval>; needs SELECT';

CREATE FUNCTION stream.skip_record(stream text, consumer_group text, "position" stream.record_position, reason text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_skip_record';
COMMENT ON FUNCTION stream.skip_record(text, text, stream.record_position, text) IS
	'passes the group''s next record of a partition, and keeps it with the reason in stream.dead_letters; needs SELECT';

--
-- Projections
--

CREATE FUNCTION stream.create_projection(projection text, stream text, target regclass = NULL, query text = NULL,
	merge jsonb = NULL, statement text = NULL, start text = 'earliest', on_error text = 'stop',
	workers int = 1, batch_records int = NULL)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_create_projection';
COMMENT ON FUNCTION stream.create_projection(text, text, regclass, text, jsonb, text, text, text, int, int) IS
	'creates a projection: a table kept up to date from a stream by a query over batch and a merge for each column, or a statement over batch; needs SELECT, and ownership of the target';

CREATE FUNCTION stream.alter_projection(projection text, on_error text = NULL, workers int = NULL,
	batch_records int = NULL, owner text = NULL, target regclass = NULL)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_alter_projection';
COMMENT ON FUNCTION stream.alter_projection(text, text, int, int, text, regclass) IS
	'changes a projection; null keeps a value; batch_records 0: chosen as it goes; target: a table to go on with as it is; needs ownership of the projection, and of the target';

CREATE FUNCTION stream.drop_projection(projection text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_drop_projection';
COMMENT ON FUNCTION stream.drop_projection(text) IS
	'drops a projection with its offsets and dead letters, after waiting for batches being applied; its target stays; needs ownership of the projection';

CREATE FUNCTION stream.pause_projection(projection text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_pause_projection';
COMMENT ON FUNCTION stream.pause_projection(text) IS 'lets no batch be applied until the projection is resumed, after waiting for those being applied; needs ownership of the projection';

CREATE FUNCTION stream.resume_projection(projection text)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_resume_projection';
COMMENT ON FUNCTION stream.resume_projection(text) IS 'ends a pause; needs ownership of the projection';

CREATE FUNCTION stream_internal.projection_definition(OUT projection name, OUT stream name, OUT target text, OUT key text[],
	OUT query text, OUT merge jsonb, OUT statement text, OUT apply_sql text, OUT replay_safe boolean, OUT on_error text,
	OUT workers int, OUT batch_records int, OUT paused boolean, OUT owner name, OUT search_path text, OUT created_at timestamptz)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_projection_definition';
COMMENT ON FUNCTION stream_internal.projection_definition() IS 'behind the view stream.projection_definition';
CREATE VIEW stream.projection_definition AS SELECT * FROM stream_internal.projection_definition();
COMMENT ON VIEW stream.projection_definition IS 'one row for each projection: what it does, with the SQL that is run';
COMMENT ON COLUMN stream.projection_definition.target IS 'the table that it keeps, as it was named at creation; null: none given';
COMMENT ON COLUMN stream.projection_definition.key IS 'the columns of the target that tell rows apart; null for a statement';
COMMENT ON COLUMN stream.projection_definition.apply_sql IS 'the statement that is run for each batch of records';
COMMENT ON COLUMN stream.projection_definition.replay_safe IS
	'records applied again, in whatever order, change nothing, as far as query and merges tell; false: exact by the offset only';
COMMENT ON COLUMN stream.projection_definition.batch_records IS 'records a batch at most; null: chosen as it goes';
COMMENT ON COLUMN stream.projection_definition.owner IS 'the role that it runs as';
COMMENT ON COLUMN stream.projection_definition.search_path IS 'under which the SQL is parsed';
CREATE FUNCTION stream.retry_dead_letters(projection text, dead_letter_ids bigint[] = NULL, max_records int = 1000,
	OUT dead_letter_id bigint, OUT "partition" int, OUT record_offset bigint, OUT applied boolean, OUT sqlstate text, OUT error text)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_retry_dead_letters';
COMMENT ON FUNCTION stream.retry_dead_letters(text, bigint[], int) IS
	'applies records that a projection has put aside, in the order of the log, and removes those that succeed; null: all; needs ownership';

CREATE FUNCTION stream.skip_projection_record(projection text, "position" stream.record_position, reason text) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_skip_projection_record';
COMMENT ON FUNCTION stream.skip_projection_record(text, stream.record_position, text) IS
	'passes a projection''s next record of a partition, and keeps it with the reason in stream.dead_letters; needs ownership';

CREATE FUNCTION stream.wait_for(projection text, positions stream.record_position[] = NULL, timeout interval = '5 s') RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_wait_for';
COMMENT ON FUNCTION stream.wait_for(text, stream.record_position[], interval) IS
	'waits until a projection has applied these records, null: all that have been published until now; false when the timeout came first; needs SELECT or INSERT on the stream';

CREATE FUNCTION stream.stale_after(projection text, outage interval) RETURNS interval
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_stale_after';
COMMENT ON FUNCTION stream.stale_after(text, interval) IS
	'how long a projection is stale after an outage of that length, its end included: outage / (1 - utilization); null: not measured yet, or it never catches up; needs SELECT';

CREATE FUNCTION stream.freshness(projection text, key text, OUT stale_seconds double precision, OUT unapplied_records bigint)
	RETURNS record
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_freshness';
COMMENT ON FUNCTION stream.freshness(text, text) IS
	'how stale what a projection made of a record key can be: age of the oldest record of its partition that is not applied, and how many there are; needs SELECT or INSERT on the stream';

--
-- Members of consumer groups
--

CREATE FUNCTION stream.join_group(stream text, consumer_group text, member_id text = NULL, instance_id text = NULL,
	session_timeout interval = '45 s', max_poll_interval interval = NULL,
	OUT member_id text, OUT member_epoch int, OUT assigned int[], OUT revoking int[])
	RETURNS record
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_join_group';
COMMENT ON FUNCTION stream.join_group(text, text, text, text, interval, interval) IS
	'makes the caller a member, under an id of its own or a new one, and returns its epoch and partitions; with instance_id a static member; max_poll_interval null: the group''s; needs SELECT';

CREATE FUNCTION stream.heartbeat(stream text, consumer_group text, member_id text, member_epoch int, owned int[],
	OUT member_id text, OUT member_epoch int, OUT assigned int[], OUT revoking int[])
	RETURNS record
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_heartbeat';
COMMENT ON FUNCTION stream.heartbeat(text, text, text, int, int[]) IS
	'a member''s sign of life: says which partitions it has, returns which it may poll and which it has to let go of, at a new epoch; needs SELECT';

CREATE FUNCTION stream.poll(stream text, consumer_group text, member_id text, member_epoch int,
	after stream.record_position[] = NULL, commit stream.record_position[] = NULL,
	max_records int = 100, max_bytes bigint = 1048576,
	OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value jsonb, OUT headers jsonb)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_poll';
COMMENT ON FUNCTION stream.poll(text, text, text, int, stream.record_position[], stream.record_position[], int, bigint) IS
	'the next records of a member''s partitions, behind the given positions, or the committed ones; commits the positions given as processed first; needs SELECT';

CREATE FUNCTION stream.poll_bytes(stream text, consumer_group text, member_id text, member_epoch int,
	after stream.record_position[] = NULL, commit stream.record_position[] = NULL,
	max_records int = 100, max_bytes bigint = 1048576,
	OUT "partition" int, OUT record_offset bigint, OUT published_at timestamptz, OUT key text, OUT value bytea, OUT headers jsonb)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_poll_bytes';
COMMENT ON FUNCTION stream.poll_bytes(text, text, text, int, stream.record_position[], stream.record_position[], int, bigint) IS
	'poll from a stream of value type bytea';

CREATE FUNCTION stream.commit_offsets(stream text, consumer_group text, member_id text, member_epoch int,
	processed stream.record_position[])
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_commit_offsets';
COMMENT ON FUNCTION stream.commit_offsets(text, text, text, int, stream.record_position[]) IS
	'commits that a member has processed its partitions up to these positions, the highest of each counts; needs SELECT';

CREATE FUNCTION stream.leave_group(stream text, consumer_group text, member_id text, member_epoch int,
	processed stream.record_position[] = NULL, temporarily boolean = false)
	RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_leave_group';
COMMENT ON FUNCTION stream.leave_group(text, text, text, int, stream.record_position[], boolean) IS
	'ends a membership, after committing what was processed; temporarily: a static member''s place is kept for its session timeout; needs SELECT';

CREATE FUNCTION stream.scaling_advice(stream text, consumer_group text, target interval,
	OUT workers int, OUT limited_by_partitions boolean, OUT lag bigint, OUT arrival_rate double precision,
	OUT worker_rate double precision, OUT measured_at timestamptz, OUT note text)
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_scaling_advice';
COMMENT ON FUNCTION stream.scaling_advice(text, text, interval) IS
	'workers that a group needs to be rid of its lag within a time: (lag / target + arrival_rate) / worker_rate, rounded up, at most the number of partitions; needs SELECT';

--
-- What merges are made of, beside what PostgreSQL has.  Without SSPACE, the planner
-- takes a state for so large that it sorts rather than hashes.
--

CREATE FUNCTION stream_internal.larger(anyelement, anyelement) RETURNS anyelement
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_larger';
COMMENT ON FUNCTION stream_internal.larger(anyelement, anyelement) IS 'aggregate transition function';
CREATE FUNCTION stream_internal.smaller(anyelement, anyelement) RETURNS anyelement
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_smaller';
COMMENT ON FUNCTION stream_internal.smaller(anyelement, anyelement) IS 'aggregate transition function';
CREATE AGGREGATE stream.max_of(anyelement) (
	SFUNC = stream_internal.larger, STYPE = anyelement, COMBINEFUNC = stream_internal.larger, PARALLEL = SAFE);
COMMENT ON AGGREGATE stream.max_of(anyelement) IS 'max for all types that have a btree ordering';
CREATE AGGREGATE stream.min_of(anyelement) (
	SFUNC = stream_internal.smaller, STYPE = anyelement, COMBINEFUNC = stream_internal.smaller, PARALLEL = SAFE);
COMMENT ON AGGREGATE stream.min_of(anyelement) IS 'min for all types that have a btree ordering';

CREATE FUNCTION stream_internal.latest_step(internal, anyelement, VARIADIC "any") RETURNS internal
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_latest_step';
COMMENT ON FUNCTION stream_internal.latest_step(internal, anyelement, VARIADIC "any") IS 'aggregate transition function';
CREATE FUNCTION stream_internal.earliest_step(internal, anyelement, VARIADIC "any") RETURNS internal
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_earliest_step';
COMMENT ON FUNCTION stream_internal.earliest_step(internal, anyelement, VARIADIC "any") IS 'aggregate transition function';
CREATE FUNCTION stream_internal.rank_final(internal, anyelement, VARIADIC "any") RETURNS anyelement
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_rank_final';
COMMENT ON FUNCTION stream_internal.rank_final(internal, anyelement, VARIADIC "any") IS 'aggregate final function';
CREATE AGGREGATE stream.latest(value anyelement, VARIADIC "by" "any") (
	SFUNC = stream_internal.latest_step, STYPE = internal, SSPACE = 128,
	FINALFUNC = stream_internal.rank_final, FINALFUNC_EXTRA, PARALLEL = SAFE);
COMMENT ON AGGREGATE stream.latest(anyelement, VARIADIC "any") IS
	'the value, which may be null, of the row with the greatest by; ties are broken by what else is given, and by the value: the greatest, null least';
CREATE AGGREGATE stream.earliest(value anyelement, VARIADIC "by" "any") (
	SFUNC = stream_internal.earliest_step, STYPE = internal, SSPACE = 128,
	FINALFUNC = stream_internal.rank_final, FINALFUNC_EXTRA, PARALLEL = SAFE);
COMMENT ON AGGREGATE stream.earliest(anyelement, VARIADIC "any") IS
	'the value, which may be null, of the row with the least by; ties are broken by what else is given, and by the value: the greatest, null least';

CREATE FUNCTION stream.is_later(VARIADIC "any") RETURNS boolean
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_is_later';
COMMENT ON FUNCTION stream.is_later(VARIADIC "any") IS
	'whether the aggregate latest prefers the row in the first half of the arguments, (by, ties …), to that in the second';
CREATE FUNCTION stream.is_earlier(VARIADIC "any") RETURNS boolean
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_is_earlier';
COMMENT ON FUNCTION stream.is_earlier(VARIADIC "any") IS
	'whether the aggregate earliest prefers the row in the first half of the arguments, (by, ties …), to that in the second';

CREATE FUNCTION stream.array_union(anyarray, anyarray) RETURNS anyarray
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_array_union';
COMMENT ON FUNCTION stream.array_union(anyarray, anyarray) IS
	'the elements of both, sorted, each once, without nulls; a null array does not count';
CREATE FUNCTION stream_internal.array_union_step(internal, anyarray) RETURNS internal
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_array_union_step';
COMMENT ON FUNCTION stream_internal.array_union_step(internal, anyarray) IS 'aggregate transition function';
CREATE FUNCTION stream_internal.array_union_final(internal, anyarray) RETURNS anyarray
	LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'stream_array_union_final';
COMMENT ON FUNCTION stream_internal.array_union_final(internal, anyarray) IS 'aggregate final function';
CREATE AGGREGATE stream.array_union_agg(anyarray) (
	SFUNC = stream_internal.array_union_step, STYPE = internal, SSPACE = 256,
	FINALFUNC = stream_internal.array_union_final, FINALFUNC_EXTRA, PARALLEL = SAFE);
COMMENT ON AGGREGATE stream.array_union_agg(anyarray) IS 'array_union of all arrays';

--
-- Monitoring.  The functions show the streams that the caller may SELECT
-- from, and all of them to a member of pg_monitor.
--

CREATE FUNCTION stream_internal.stream_status(OUT stream name, OUT partitions int, OUT value_type text, OUT compression text,
	OUT segment_bytes bigint, OUT segment_age interval, OUT segments int, OUT records bigint, OUT bytes bigint, OUT total_bytes bigint,
	OUT created_at timestamptz)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_stream_status';
COMMENT ON FUNCTION stream_internal.stream_status() IS 'behind the view stream.stream_status';
CREATE VIEW stream.stream_status AS SELECT * FROM stream_internal.stream_status();
COMMENT ON VIEW stream.stream_status IS 'one row for each stream';
COMMENT ON COLUMN stream.stream_status.segment_bytes IS 'size at which a segment is rolled; null: at none';
COMMENT ON COLUMN stream.stream_status.segment_age IS 'time after its first record at which a segment is rolled; null: at none';
COMMENT ON COLUMN stream.stream_status.segments IS 'number of segments';
COMMENT ON COLUMN stream.stream_status.records IS 'committed records in the log';
COMMENT ON COLUMN stream.stream_status.bytes IS 'their batches, as compressed';
COMMENT ON COLUMN stream.stream_status.total_bytes IS 'size on disk of all segments with their indexes';

CREATE FUNCTION stream_internal.partition_status(OUT stream name, OUT "partition" int, OUT log_start_offset bigint,
	OUT high_watermark bigint, OUT log_end_offset bigint, OUT records bigint, OUT bytes bigint,
	OUT records_held_back bigint, OUT seconds_held_back double precision)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_partition_status';
COMMENT ON FUNCTION stream_internal.partition_status() IS 'behind the view stream.partition_status';
CREATE VIEW stream.partition_status AS SELECT * FROM stream_internal.partition_status();
COMMENT ON VIEW stream.partition_status IS 'one row for each partition';
COMMENT ON COLUMN stream.partition_status.log_start_offset IS 'first offset that can be read';
COMMENT ON COLUMN stream.partition_status.high_watermark IS 'readers see what is below; null on a standby';
COMMENT ON COLUMN stream.partition_status.log_end_offset IS 'the next record''s offset, as far as issued; null on a standby';
COMMENT ON COLUMN stream.partition_status.records IS 'committed records below the high watermark';
COMMENT ON COLUMN stream.partition_status.bytes IS 'their batches, as compressed';
COMMENT ON COLUMN stream.partition_status.records_held_back IS 'offsets issued but not below the high watermark, since a publisher is still open';
COMMENT ON COLUMN stream.partition_status.seconds_held_back IS 'age of the oldest of them; zero when there is none';

CREATE FUNCTION stream_internal.segment_status(OUT stream name, OUT segment_no int, OUT state text, OUT table_name text,
	OUT created_at timestamptz, OUT sealed_at timestamptz, OUT records bigint, OUT batches bigint, OUT bytes bigint,
	OUT total_bytes bigint, OUT xid_age int, OUT first_published_at timestamptz, OUT last_published_at timestamptz,
	OUT offset_ranges int8range[])
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_segment_status';
COMMENT ON FUNCTION stream_internal.segment_status() IS 'behind the view stream.segment_status';
CREATE VIEW stream.segment_status AS SELECT * FROM stream_internal.segment_status();
COMMENT ON VIEW stream.segment_status IS 'one row for each segment of a stream''s log';
COMMENT ON COLUMN stream.segment_status.state IS
	'active: publishers write to it; closing: only publishers that began before the roll; sealed: none';
COMMENT ON COLUMN stream.segment_status.table_name IS 'the table that holds it';
COMMENT ON COLUMN stream.segment_status.total_bytes IS 'size on disk with its index';
COMMENT ON COLUMN stream.segment_status.xid_age IS 'age of the oldest transaction id that is not frozen in it, as for autovacuum_freeze_max_age';
COMMENT ON COLUMN stream.segment_status.offset_ranges IS 'one element for each partition, from the first record to behind the last; null: none';

CREATE FUNCTION stream_internal.consumer_lag(OUT consumer_group name, OUT stream name, OUT "partition" int,
	OUT committed_offset bigint, OUT high_watermark bigint, OUT lag bigint, OUT oldest_unread_at timestamptz,
	OUT lag_seconds double precision, OUT committed_at timestamptz, OUT records_skipped bigint, OUT rollbacks bigint, OUT member_id name, OUT group_id int)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_consumer_lag';
COMMENT ON FUNCTION stream_internal.consumer_lag() IS 'behind the view stream.consumer_lag';
CREATE VIEW stream.consumer_lag AS
	SELECT c.consumer_group, c.stream, c."partition", c.committed_offset, c.high_watermark, c.lag, c.oldest_unread_at,
		c.lag_seconds, c.member_id, l.pid, pg_catalog.pg_get_userbyid(a.usesysid) AS "user", a.application_name,
		c.committed_at, c.rollbacks, c.records_skipped
	FROM stream_internal.consumer_lag() c
		LEFT JOIN pg_catalog.pg_lock_status() l ON l.locktype = 'advisory' AND l.objsubid = 83 AND l.granted
			AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
			AND l.classid = c.group_id::pg_catalog.oid AND l.objid = c."partition"::pg_catalog.oid
		LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(l.pid) a ON l.pid IS NOT NULL
	ORDER BY c.consumer_group, c.stream, c."partition";
COMMENT ON VIEW stream.consumer_lag IS 'one row for each partition of each consumer group, computed when asked';
COMMENT ON COLUMN stream.consumer_lag.committed_offset IS 'the next offset the group reads';
COMMENT ON COLUMN stream.consumer_lag.lag IS 'offsets from there to the high watermark, without those that restarts have skipped';
COMMENT ON COLUMN stream.consumer_lag.oldest_unread_at IS 'when the oldest unread record was published, also one held back by an open publisher; null: none';
COMMENT ON COLUMN stream.consumer_lag.lag_seconds IS 'its age; zero when there is none';
COMMENT ON COLUMN stream.consumer_lag.member_id IS 'member that has the partition';
COMMENT ON COLUMN stream.consumer_lag.pid IS 'session that is processing the partition';
COMMENT ON COLUMN stream.consumer_lag.rollbacks IS
	'transactions and savepoints rolled back since then that had taken records of the partition; counted since the server''s start';
COMMENT ON COLUMN stream.consumer_lag.records_skipped IS 'offsets passed over because retention had removed them';

CREATE FUNCTION stream_internal.visible_streams(OUT stream_id int, OUT stream name)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_visible_streams';
COMMENT ON FUNCTION stream_internal.visible_streams() IS 'streams that the views show to the user';

CREATE VIEW stream.dead_letters WITH (security_barrier) AS
	SELECT d.dead_letter_id, s.stream, g.consumer_group, g.projection, d."partition", d.record_offset, d.published_at, d.key, d.value, d.value_bytes,
		d.headers, d.reason, d.sqlstate, d.user_name AS "user", d.created_at, d.retries
	FROM stream_internal.visible_streams() s
		JOIN (SELECT group_id, stream_id, consumer_group, NULL::name AS projection FROM stream_internal.consumer_groups
			UNION ALL SELECT projection_id, stream_id, NULL, projection FROM stream_internal.projections) g ON g.stream_id = s.stream_id
		JOIN stream_internal.dead_letters d ON d.group_id = g.group_id;
COMMENT ON VIEW stream.dead_letters IS
	'records that a consumer group, or a projection, has passed without processing them, with the reason';
COMMENT ON COLUMN stream.dead_letters.value_bytes IS 'the value in streams of value type bytea; both are null in a tombstone';
COMMENT ON COLUMN stream.dead_letters.sqlstate IS 'of the error; null: passed by skip_record or skip_projection_record';
COMMENT ON COLUMN stream.dead_letters.user IS 'who has passed it; a projection''s worker does so as its own user';
COMMENT ON COLUMN stream.dead_letters.retries IS 'by retry_dead_letters, all in vain';
CREATE FUNCTION stream_internal.group_members(OUT consumer_group name, OUT stream name, OUT member_id name, OUT instance_id name,
	OUT state text, OUT member_epoch int, OUT assigned int[], OUT revoking int[], OUT target int[],
	OUT last_heartbeat timestamptz, OUT last_poll timestamptz, OUT session_timeout interval, OUT max_poll_interval interval,
	OUT joined_at timestamptz, OUT group_id int)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_group_members';
COMMENT ON FUNCTION stream_internal.group_members() IS 'behind the view stream.group_members';
CREATE VIEW stream.group_members AS
	SELECT m.consumer_group, m.stream, m.member_id, m.instance_id, m.state, m.member_epoch, m.assigned, m.revoking, m.target,
		m.last_heartbeat, m.last_poll, m.session_timeout, m.max_poll_interval, m.joined_at
	FROM stream_internal.group_members() m;
COMMENT ON VIEW stream.group_members IS 'one row for each member of a consumer group';
COMMENT ON COLUMN stream.group_members.instance_id IS 'of a static member; null: a dynamic one';
COMMENT ON COLUMN stream.group_members.state IS
	'stable: has its target; unrevoked_partitions: has to let go of some first; unreleased_partitions: waits for some that others still have; away: left temporarily';
COMMENT ON COLUMN stream.group_members.assigned IS 'partitions it may poll and commit';
COMMENT ON COLUMN stream.group_members.revoking IS 'partitions it may still commit, and is to let go of';
COMMENT ON COLUMN stream.group_members.target IS 'partitions it is to have';
COMMENT ON COLUMN stream.group_members.last_heartbeat IS 'last sign of life; after a restart, when it was first asked for; null: stream.max_members is too low to note it';

CREATE FUNCTION stream_internal.expire_groups() RETURNS int
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'stream_expire_groups_now';
COMMENT ON FUNCTION stream_internal.expire_groups() IS 'drops consumer groups that were not used for stream.offset_retention, as the manager does, and counts them';

CREATE FUNCTION stream_internal.group_status(OUT consumer_group name, OUT stream name, OUT state text, OUT paused boolean,
	OUT group_epoch int, OUT target_epoch int, OUT members int, OUT workers int, OUT partitions int,
	OUT lag bigint, OUT oldest_unread_at timestamptz, OUT lag_seconds double precision, OUT committed_at timestamptz,
	OUT arrival_rate double precision, OUT worker_rate double precision, OUT capacity double precision,
	OUT utilization double precision, OUT headroom double precision, OUT headroom_one_worker_fewer double precision,
	OUT measured_at timestamptz, OUT on_offset_out_of_range text, OUT max_poll_interval interval, OUT expires_at timestamptz)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_group_status';
COMMENT ON FUNCTION stream_internal.group_status() IS 'behind the view stream.group_status';
CREATE VIEW stream.group_status AS SELECT * FROM stream_internal.group_status();
COMMENT ON VIEW stream.group_status IS 'one row for each consumer group, computed when asked';
COMMENT ON COLUMN stream.group_status.state IS
	'assigning, reconciling, stable: it has members; consuming: sessions consume without membership; empty: none does';
COMMENT ON COLUMN stream.group_status.group_epoch IS 'of the list of members; null: it never had any';
COMMENT ON COLUMN stream.group_status.target_epoch IS 'of the list that the target assignment is for';
COMMENT ON COLUMN stream.group_status.members IS 'members that have neither timed out nor left for a while';
COMMENT ON COLUMN stream.group_status.workers IS
	'these, or without members the sessions that have consumed or waited within the last minute or are processing records';
COMMENT ON COLUMN stream.group_status.lag IS 'unread records of all partitions';
COMMENT ON COLUMN stream.group_status.lag_seconds IS 'age of the oldest unread record; zero when there is none';
COMMENT ON COLUMN stream.group_status.arrival_rate IS
	'records a second published within the last minute, by their offsets; null: the stream is younger than a second';
COMMENT ON COLUMN stream.group_status.worker_rate IS
	'records a second that one worker processes, measured on full batches, those that left records behind; null: none yet since the server''s start';
COMMENT ON COLUMN stream.group_status.capacity IS 'worker_rate times the workers, of which no more count than there are partitions';
COMMENT ON COLUMN stream.group_status.utilization IS 'arrival_rate / capacity; null: not measured yet, or no worker';
COMMENT ON COLUMN stream.group_status.headroom IS '1 - utilization; negative: the lag grows';
COMMENT ON COLUMN stream.group_status.headroom_one_worker_fewer IS 'headroom with one worker fewer; null: there is no other';
COMMENT ON COLUMN stream.group_status.measured_at IS 'when the last full batch ended';
COMMENT ON COLUMN stream.group_status.expires_at IS
	'when it is dropped, by stream.offset_retention, unless somebody consumes, polls or waits for it before; null: never, or it has members';

CREATE FUNCTION stream_internal.projection_status(OUT projection name, OUT stream name, OUT state text, OUT replay_safe boolean,
	OUT partitions int, OUT workers int, OUT lag bigint, OUT oldest_unapplied_at timestamptz, OUT lag_seconds double precision,
	OUT applied_at timestamptz, OUT arrival_rate double precision, OUT worker_rate double precision, OUT capacity double precision,
	OUT utilization double precision, OUT headroom double precision, OUT headroom_one_worker_fewer double precision,
	OUT downtime_share double precision, OUT catch_up_seconds double precision, OUT measured_at timestamptz,
	OUT dead_letters bigint, OUT failing_partitions int, OUT error_partition int, OUT error_offset bigint, OUT last_error text,
	OUT error_detail text, OUT error_hint text, OUT sqlstate text, OUT failing_since timestamptz, OUT failed_at timestamptz, OUT next_retry_at timestamptz,
	OUT retries int, OUT projection_id int)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_projection_status';
COMMENT ON FUNCTION stream_internal.projection_status() IS 'behind the view stream.projection_status';
CREATE VIEW stream.projection_status AS
	SELECT projection, stream, state, replay_safe, partitions, workers, lag, oldest_unapplied_at, lag_seconds, applied_at,
		arrival_rate, worker_rate, capacity, utilization, headroom, headroom_one_worker_fewer, downtime_share, catch_up_seconds,
		measured_at, dead_letters, failing_partitions, error_partition, error_offset, last_error, error_detail, error_hint,
		sqlstate, failing_since, failed_at, next_retry_at, retries
	FROM stream_internal.projection_status();
COMMENT ON VIEW stream.projection_status IS 'one row for each projection, computed when asked';
COMMENT ON COLUMN stream.projection_status.state IS
	'the first that holds: paused; target missing, target replaced: by another table of its name, target unlogged; no applier: none runs in the database; stopped: by a record, in some partition; retrying: after an error of another kind; running';
COMMENT ON COLUMN stream.projection_status.replay_safe IS 'false: exact only by the stored offset';
COMMENT ON COLUMN stream.projection_status.workers IS
	'partitions that can be applied at a time: the least of the projection''s workers, its partitions and stream.max_appliers';
COMMENT ON COLUMN stream.projection_status.lag IS 'records that are readable and not applied, in all partitions';
COMMENT ON COLUMN stream.projection_status.oldest_unapplied_at IS
	'when the oldest record that is not applied was published, also one held back by an open publisher; null: none';
COMMENT ON COLUMN stream.projection_status.lag_seconds IS 'its age; zero when there is none';
COMMENT ON COLUMN stream.projection_status.applied_at IS 'when the last batch was applied, at first when the projection was created';
COMMENT ON COLUMN stream.projection_status.arrival_rate IS
	'records a second published within the last minute, by their offsets; null: the stream is younger than a second';
COMMENT ON COLUMN stream.projection_status.worker_rate IS
	'records a second that one applier applies, measured on full batches, those that left records behind; null: none yet since the server''s start';
COMMENT ON COLUMN stream.projection_status.capacity IS 'worker_rate times workers, as if no other projection had a backlog';
COMMENT ON COLUMN stream.projection_status.utilization IS 'arrival_rate / capacity';
COMMENT ON COLUMN stream.projection_status.headroom IS '1 - utilization; negative: the lag grows';
COMMENT ON COLUMN stream.projection_status.headroom_one_worker_fewer IS 'headroom with one worker fewer; null: there is no other';
COMMENT ON COLUMN stream.projection_status.downtime_share IS 'the share of time that it may be down and still catch up';
COMMENT ON COLUMN stream.projection_status.catch_up_seconds IS 'until the lag is gone, as things are; null: not measured yet, or never';
COMMENT ON COLUMN stream.projection_status.measured_at IS 'when the last full batch ended';
COMMENT ON COLUMN stream.projection_status.dead_letters IS 'records that were put aside: see stream.dead_letters';
COMMENT ON COLUMN stream.projection_status.failing_partitions IS 'partitions that do not get on; the next columns are of the one that a record has stopped, or failed last';
COMMENT ON COLUMN stream.projection_status.error_offset IS 'the failing record, or the first of the failing batch';
COMMENT ON COLUMN stream.projection_status.retries IS 'since then, all in vain';

CREATE FUNCTION stream_internal.projection_partition_status(OUT projection name, OUT stream name, OUT "partition" int, OUT state text,
	OUT applied_offset bigint, OUT high_watermark bigint, OUT lag bigint, OUT oldest_unapplied_at timestamptz,
	OUT lag_seconds double precision, OUT applied_at timestamptz, OUT records_skipped bigint, OUT pid int,
	OUT arrival_rate double precision, OUT worker_rate double precision, OUT measured_at timestamptz, OUT error_offset bigint, OUT last_error text, OUT error_detail text,
	OUT error_hint text, OUT sqlstate text, OUT failing_since timestamptz, OUT failed_at timestamptz, OUT next_retry_at timestamptz, OUT retries int)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'stream_projection_partition_status';
COMMENT ON FUNCTION stream_internal.projection_partition_status() IS 'behind the view stream.projection_partition_status';
CREATE VIEW stream.projection_partition_status AS SELECT * FROM stream_internal.projection_partition_status();
COMMENT ON VIEW stream.projection_partition_status IS 'one row for each partition of a projection''s stream, computed when asked';
COMMENT ON COLUMN stream.projection_partition_status.state IS 'as in stream.projection_status, of this partition';
COMMENT ON COLUMN stream.projection_partition_status.applied_offset IS 'the next offset to apply';
COMMENT ON COLUMN stream.projection_partition_status.records_skipped IS 'offsets passed over because retention had removed them';
COMMENT ON COLUMN stream.projection_partition_status.pid IS 'applier that is at it just now';
COMMENT ON COLUMN stream.projection_partition_status.worker_rate IS 'as in stream.projection_status, measured in this partition';
COMMENT ON COLUMN stream.projection_partition_status.error_offset IS 'the failing record, or the first of the failing batch';
COMMENT ON COLUMN stream.projection_partition_status.retries IS 'since failing_since, all in vain';

CREATE FUNCTION stream_internal.open_publishers(OUT pid int, OUT stream name, OUT "partition" int, OUT first_offset bigint, OUT age interval)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_open_publishers';
COMMENT ON FUNCTION stream_internal.open_publishers() IS 'behind the view stream.open_publishers';
CREATE VIEW stream.open_publishers AS
	SELECT o.pid, pg_catalog.pg_get_userbyid(a.usesysid) AS "user", a.application_name, o.stream, o."partition", o.first_offset, o.age
	FROM stream_internal.open_publishers() o
		LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(o.pid) a ON true;
COMMENT ON VIEW stream.open_publishers IS
	'transactions that have published and not ended; each holds back the high watermark of its partitions at its first offset';
COMMENT ON COLUMN stream.open_publishers.age IS 'time since its first publish to the partition';

CREATE FUNCTION stream_internal.memory_status(OUT area text, OUT used int, OUT capacity int, OUT bytes bigint, OUT setting text)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'stream_memory_status';
COMMENT ON FUNCTION stream_internal.memory_status() IS 'behind the view stream.memory_status';
CREATE VIEW stream.memory_status AS SELECT * FROM stream_internal.memory_status();
COMMENT ON VIEW stream.memory_status IS 'how full the extension''s shared memory is, over all databases';
COMMENT ON COLUMN stream.memory_status.bytes IS 'shared memory reserved for the area';
COMMENT ON COLUMN stream.memory_status.setting IS 'the setting that sizes it, read at server start';

CREATE FUNCTION stream_internal.progress(OUT pid int, OUT command text, OUT stream name, OUT phase text, OUT done bigint, OUT total bigint)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 5 AS 'MODULE_PATHNAME', 'stream_progress_status';
COMMENT ON FUNCTION stream_internal.progress() IS 'behind the view stream.progress';
CREATE VIEW stream.progress AS
	SELECT p.pid, pg_catalog.pg_get_userbyid(a.usesysid) AS "user", a.application_name, p.command, p.stream, p.phase, p.done, p.total
	FROM stream_internal.progress() p
		LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(p.pid) a ON true;
COMMENT ON VIEW stream.progress IS 'long operations under way, in blocks or steps done and in total';

CREATE FUNCTION stream_internal.worker_status(OUT type text, OUT database name, OUT pid int, OUT state text, OUT activity text,
	OUT started_at timestamptz, OUT retry_at timestamptz, OUT last_error text, OUT last_error_at timestamptz, OUT restarts int)
	RETURNS SETOF record
	LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'stream_worker_status';
COMMENT ON FUNCTION stream_internal.worker_status() IS 'behind the view stream.worker_status';
CREATE VIEW stream.worker_status AS SELECT * FROM stream_internal.worker_status();
COMMENT ON VIEW stream.worker_status IS
	'one row for each background worker that runs or is wanted: of this database, and all of them for members of pg_monitor';
COMMENT ON COLUMN stream.worker_status.type IS 'as backend_type in pg_stat_activity';
COMMENT ON COLUMN stream.worker_status.state IS
	'starting, running, idle, backing off (after an error), waiting for a worker slot (of max_worker_processes), stopped';
COMMENT ON COLUMN stream.worker_status.activity IS 'what it does now, or why it does not run';
COMMENT ON COLUMN stream.worker_status.retry_at IS 'when it is tried again after an error';
COMMENT ON COLUMN stream.worker_status.last_error IS 'kept when it goes well again';
COMMENT ON COLUMN stream.worker_status.restarts IS 'processes since the first';

GRANT SELECT ON
	stream.consumer_lag,
	stream.dead_letters,
	stream.group_members,
	stream.group_status,
	stream.memory_status,
	stream.open_publishers,
	stream.partition_status,
	stream.progress,
	stream.projection_definition,
	stream.projection_partition_status,
	stream.projection_status,
	stream.segment_status,
	stream.stream_status,
	stream.worker_status
	TO PUBLIC;
