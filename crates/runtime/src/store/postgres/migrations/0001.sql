-- Runs, what is kept of them, and jobs that wait for a machine.

CREATE TABLE phasegate.run (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project text NOT NULL,
  -- MACHINE:ROOT where the run's document is a file there; empty where it is in the store, and every machine may act.
  site text NOT NULL,
  workflow text NOT NULL,
  name text NOT NULL,
  -- How often anything of it was written.
  rev bigint NOT NULL DEFAULT 0,
  changed timestamptz NOT NULL DEFAULT clock_timestamp(),
  open boolean NOT NULL DEFAULT true,
  over_at timestamptz,
  -- The last line of the journal: its number and its hash.
  seq bigint NOT NULL DEFAULT 0,
  head text NOT NULL DEFAULT '',
  -- What the view over all runs shows, as the ledger says it: written in the same transaction. None of it is indexed.
  condition text NOT NULL DEFAULT '',
  standing text NOT NULL DEFAULT '',
  phase text NOT NULL DEFAULT '',
  owner text,
  since timestamptz,
  needs text,
  -- When what it waits for has come too late, when a hook last fired for it, and when it began.
  until timestamptz,
  fired timestamptz,
  started timestamptz,
  micro_dollars bigint NOT NULL DEFAULT 0,
  untold bigint NOT NULL DEFAULT 0,
  -- MACHINE:ROOT of whoever wrote last.
  writer text NOT NULL DEFAULT '',
  UNIQUE (project, site, workflow, name)
) WITH (fillfactor = 70);
-- None of their columns changes with a usual step, so that such a step touches no index.
CREATE INDEX run_open ON phasegate.run (project, site) WHERE open;
CREATE INDEX run_over ON phasegate.run (project, site, over_at) WHERE NOT open;
CREATE INDEX run_over_last ON phasegate.run (over_at) WHERE NOT open;

-- Ledger, definition, document.
CREATE TABLE phasegate.value (
  run bigint NOT NULL REFERENCES phasegate.run ON DELETE CASCADE,
  kind text NOT NULL,
  version text NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (run, kind)
) WITH (fillfactor = 70);

CREATE TABLE phasegate.journal (
  run bigint NOT NULL REFERENCES phasegate.run ON DELETE CASCADE,
  seq bigint NOT NULL,
  line text NOT NULL,
  PRIMARY KEY (run, seq)
);

-- Evidence, by the digest of its content.
CREATE TABLE phasegate.piece (
  run bigint NOT NULL REFERENCES phasegate.run ON DELETE CASCADE,
  digest text NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (run, digest)
);

-- What could not be understood, kept out of the way.
CREATE TABLE phasegate.aside (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run bigint NOT NULL REFERENCES phasegate.run ON DELETE CASCADE,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  what text NOT NULL,
  bytes bytea NOT NULL
);
CREATE INDEX aside_run ON phasegate.aside (run);

-- Transitions that have happened, so that one whose answer was lost is found again.
CREATE TABLE phasegate.operation (
  id bytea PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX operation_at ON phasegate.operation USING brin (at);

-- Jobs that wait for a machine, or are at work on one.
CREATE TABLE phasegate.job (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run bigint NOT NULL REFERENCES phasegate.run ON DELETE CASCADE,
  project text NOT NULL,
  -- As the run knows it, and its folder, by which the same job is queued once.
  job text NOT NULL,
  folder text NOT NULL,
  kind text NOT NULL,
  labels text[] NOT NULL DEFAULT '{}',
  -- What a worker needs: commands, prompt, timeouts, facts, remote, commit, branch.
  spec jsonb NOT NULL,
  state text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'leased', 'done')),
  queued timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- It can be taken once what it works on was sent.
  run_at timestamptz NOT NULL DEFAULT 'infinity',
  owner text,
  fence bigint NOT NULL DEFAULT 0,
  lease_until timestamptz,
  -- The digest of the secret of the agent that has the job now: it is made where that runs.
  secret text,
  started timestamptz,
  attempts int NOT NULL DEFAULT 0,
  max_attempts int NOT NULL DEFAULT 5,
  cancelled boolean NOT NULL DEFAULT false,
  result jsonb,
  ended timestamptz,
  UNIQUE (project, folder)
) WITH (fillfactor = 70);
CREATE INDEX job_take ON phasegate.job (run_at, id) WHERE state IN ('ready', 'leased');
CREATE INDEX job_run ON phasegate.job (run);

-- Jobs whose results were accepted: out of the way of those that look for work.
CREATE TABLE phasegate.job_history (
  id bigint PRIMARY KEY,
  run bigint NOT NULL REFERENCES phasegate.run ON DELETE CASCADE,
  project text NOT NULL,
  job text NOT NULL,
  folder text NOT NULL,
  kind text NOT NULL,
  labels text[] NOT NULL,
  spec jsonb NOT NULL,
  queued timestamptz NOT NULL,
  owner text,
  fence bigint NOT NULL,
  attempts int NOT NULL,
  started timestamptz,
  result jsonb,
  ended timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (project, folder)
);
CREATE INDEX job_history_run ON phasegate.job_history (run);

-- One transition, all of it or nothing, in one round trip: 'done', or 'conflict' where something is no longer what was
-- read. The same operation a second time is done already, whatever has happened since. Where that is noticed only after
-- something was written, an error takes it back: PH001 for what is done already, PH002 for a conflict.
CREATE FUNCTION phasegate.commit_1(
  p_operation bytea, p_project text, p_site text, p_shared boolean, p_workflow text, p_name text,
  p_kinds text[], p_expected text[], p_versions text[], p_bytes bytea[],
  p_removed text[], p_removed_versions text[],
  p_line text, p_seq bigint, p_prev text, p_hash text,
  p_digests text[], p_pieces bytea[],
  p_open boolean, p_summary jsonb, p_jobs jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r bigint;
  s bigint;
  was_known boolean;
  fits boolean := true;
  -- How the run stands now, if that is said.
  n phasegate.run := jsonb_populate_record(NULL::phasegate.run, p_summary);
BEGIN
  -- The run that a machine means by a name: its own, else the one of all machines.
  SELECT id INTO r FROM phasegate.run
  WHERE project = p_project AND workflow = p_workflow AND name = p_name AND site IN (p_site, '')
  ORDER BY site DESC LIMIT 1;
  was_known := FOUND;
  -- From here on, nobody else writes this run. Whoever was faster is waited for, and then the line does not follow.
  UPDATE phasegate.run SET
    rev = rev + 1,
    changed = clock_timestamp(),
    open = p_open,
    over_at = CASE WHEN p_open THEN NULL WHEN open THEN clock_timestamp() ELSE over_at END,
    seq = CASE WHEN p_line IS NULL THEN seq ELSE coalesce(p_seq, seq + 1) END,
    head = CASE WHEN p_line IS NULL THEN head ELSE coalesce(p_hash, '') END,
    condition = coalesce(n.condition, condition),
    standing = coalesce(n.standing, standing),
    phase = coalesce(n.phase, phase),
    owner = CASE WHEN p_summary IS NULL THEN owner ELSE n.owner END,
    -- It has stood so since the step that first said so.
    since = CASE WHEN p_summary IS NULL
        OR (condition, standing, phase) = (n.condition, n.standing, n.phase)
      THEN since ELSE n.since END,
    needs = CASE WHEN p_summary IS NULL THEN needs ELSE n.needs END,
    until = CASE WHEN p_summary IS NULL THEN until ELSE n.until END,
    fired = CASE WHEN p_summary IS NULL THEN fired ELSE n.fired END,
    started = CASE WHEN p_summary IS NULL THEN started ELSE n.started END,
    micro_dollars = coalesce(n.micro_dollars, micro_dollars),
    untold = coalesce(n.untold, untold),
    writer = p_site
  WHERE id = r
    AND (p_line IS NULL OR (p_prev IS NULL OR head = p_prev) AND (p_seq IS NULL OR seq < p_seq))
  RETURNING id, seq INTO r, s;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM phasegate.operation WHERE id = p_operation) THEN
      RETURN 'done';
    END IF;
    IF was_known
      OR p_removed <> '{}' OR p_prev <> '' OR array_remove(p_expected, NULL) <> '{}'
    THEN
      RETURN 'conflict';
    END IF;
    INSERT INTO phasegate.run AS new
      (project, site, workflow, name, rev, open, seq, head, condition, standing, phase, owner, since,
       needs, until, fired, started, micro_dollars, untold, writer)
    VALUES (
      p_project, CASE WHEN p_shared THEN '' ELSE p_site END, p_workflow, p_name, 1, p_open,
      CASE WHEN p_line IS NULL THEN 0 ELSE coalesce(p_seq, 1) END, coalesce(p_hash, ''),
      coalesce(n.condition, ''), coalesce(n.standing, ''), coalesce(n.phase, ''), n.owner, n.since,
      n.needs, n.until, n.fired, n.started, coalesce(n.micro_dollars, 0), coalesce(n.untold, 0),
      p_site
    )
    ON CONFLICT DO NOTHING RETURNING new.id, new.seq INTO r, s;
    IF NOT FOUND THEN
      -- Another was faster: this very operation, perhaps.
      IF EXISTS (SELECT FROM phasegate.operation WHERE id = p_operation) THEN
        RETURN 'done';
      END IF;
      RETURN 'conflict';
    END IF;
  END IF;
  FOR i IN 1 .. cardinality(p_kinds) LOOP
    IF p_expected[i] IS NULL THEN
      INSERT INTO phasegate.value (run, kind, version, bytes)
      VALUES (r, p_kinds[i], p_versions[i], p_bytes[i]) ON CONFLICT DO NOTHING;
    ELSE
      UPDATE phasegate.value SET version = p_versions[i], bytes = p_bytes[i]
      WHERE run = r AND kind = p_kinds[i] AND version = p_expected[i];
    END IF;
    fits := fits AND FOUND;
  END LOOP;
  FOR i IN 1 .. cardinality(p_removed) LOOP
    DELETE FROM phasegate.value
    WHERE run = r AND kind = p_removed[i] AND version = p_removed_versions[i];
    fits := fits AND FOUND;
  END LOOP;
  IF NOT fits THEN
    IF EXISTS (SELECT FROM phasegate.operation WHERE id = p_operation) THEN
      RAISE EXCEPTION 'phasegate: done already' USING ERRCODE = 'PH001';
    END IF;
    RAISE EXCEPTION 'phasegate: another was faster' USING ERRCODE = 'PH002';
  END IF;
  IF p_line IS NOT NULL THEN
    INSERT INTO phasegate.journal (run, seq, line) VALUES (r, s, p_line);
  END IF;
  IF p_digests <> '{}' THEN
    INSERT INTO phasegate.piece (run, digest, bytes)
    SELECT r, e.digest, e.bytes FROM unnest(p_digests, p_pieces) AS e (digest, bytes)
    ON CONFLICT DO NOTHING;
  END IF;
  IF p_jobs IS NOT NULL THEN
    INSERT INTO phasegate.job (run, project, job, folder, kind, labels, spec)
    SELECT r, p_project, j.job, j.folder, j.kind, j.labels, j.spec
    FROM jsonb_to_recordset(p_jobs)
      AS j (job text, folder text, kind text, labels text[], spec jsonb)
    ON CONFLICT DO NOTHING;
  END IF;
  INSERT INTO phasegate.operation (id) VALUES (p_operation) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    -- Nothing was compared that would have told.
    RAISE EXCEPTION 'phasegate: done already' USING ERRCODE = 'PH001';
  END IF;
  RETURN 'done';
END $$;

-- Whether a machine has the job and is known to live.
CREATE FUNCTION phasegate.is_held_1(j phasegate.job) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT j.state = 'leased' AND j.lease_until >= clock_timestamp()
$$;

-- Jobs that a machine could take, as what they ask consent for: without a project, those of all.
CREATE FUNCTION phasegate.offers_1(p_project text)
RETURNS TABLE (project text, run bigint, workflow text, definition text)
LANGUAGE sql STABLE AS $$
  SELECT DISTINCT ON (j.project, r.workflow, j.spec ->> 'definition')
    j.project, j.run, r.workflow, j.spec ->> 'definition'
  FROM phasegate.job j JOIN phasegate.run r ON r.id = j.run
  WHERE j.state IN ('ready', 'leased') AND j.run_at <= clock_timestamp()
    AND NOT phasegate.is_held_1(j) AND (p_project IS NULL OR j.project = p_project)
$$;

-- Takes a job, for as long as a lease lasts. The fence counts who has it: a result with an older one is not accepted.
-- One that this owner has without knowing it, since the answer was lost, is given to it again.
CREATE FUNCTION phasegate.take_1(
  p_owner text, p_known bigint[], p_project text, p_definitions text[], p_labels text[],
  p_secret text, p_lease interval
) RETURNS SETOF phasegate.job LANGUAGE sql AS $$
  UPDATE phasegate.job SET
    state = 'leased', owner = p_owner, fence = fence + 1, attempts = attempts + 1,
    secret = p_secret, started = clock_timestamp(), lease_until = clock_timestamp() + p_lease
  WHERE id = (
    SELECT j.id FROM phasegate.job j
    WHERE j.state IN ('ready', 'leased') AND j.run_at <= clock_timestamp()
      AND (NOT phasegate.is_held_1(j) OR j.owner = p_owner AND j.id <> ALL (p_known))
      AND NOT j.cancelled AND j.attempts < j.max_attempts
      AND (p_project IS NULL OR j.project = p_project)
      AND (p_definitions IS NULL OR j.spec ->> 'definition' = ANY (p_definitions))
      AND (p_labels IS NULL OR j.labels <@ p_labels)
    ORDER BY j.run_at, j.id FOR UPDATE SKIP LOCKED LIMIT 1)
  RETURNING *
$$;

-- Lengthens the leases of jobs that an owner still has; which those are, and whether nobody wants them any more.
CREATE FUNCTION phasegate.beat_1(p_owner text, p_ids bigint[], p_fences bigint[], p_lease interval)
RETURNS TABLE (id bigint, cancelled boolean) LANGUAGE sql AS $$
  UPDATE phasegate.job j SET lease_until = clock_timestamp() + p_lease
  FROM unnest(p_ids, p_fences) AS held (id, fence)
  WHERE j.id = held.id AND j.fence = held.fence AND j.owner = p_owner AND j.state = 'leased'
  RETURNING j.id, j.cancelled
$$;

-- Moves a job out of the way of those who look for work.
CREATE FUNCTION phasegate.close_1(p_id bigint, p_result jsonb) RETURNS void LANGUAGE sql AS $$
  WITH gone AS (DELETE FROM phasegate.job WHERE id = p_id RETURNING *)
  INSERT INTO phasegate.job_history
    (id, run, project, job, folder, kind, labels, spec, queued, owner, fence, attempts, started, result)
  SELECT id, run, project, job, folder, kind, labels, spec, queued, owner, fence, attempts, started,
    p_result
  FROM gone
$$;

-- Accepts the result of a job from the one who has it, once. The same again is accepted already.
CREATE FUNCTION phasegate.finish_1(
  p_id bigint, p_owner text, p_fence bigint, p_result jsonb, p_digests text[], p_pieces bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  r bigint;
BEGIN
  SELECT run INTO r FROM phasegate.job
  WHERE id = p_id AND owner = p_owner AND fence = p_fence AND state = 'leased' FOR UPDATE;
  IF NOT FOUND THEN
    RETURN EXISTS (
      SELECT FROM phasegate.job_history WHERE id = p_id AND owner = p_owner AND fence = p_fence);
  END IF;
  INSERT INTO phasegate.piece (run, digest, bytes)
  SELECT r, e.digest, e.bytes FROM unnest(p_digests, p_pieces) AS e (digest, bytes)
  ON CONFLICT DO NOTHING;
  PERFORM phasegate.close_1(p_id, p_result);
  RETURN true;
END $$;

-- Ends a job that nobody has: one that is not wanted any more, or that no machine can take. A machine that has it is
-- told that it is not wanted.
CREATE FUNCTION phasegate.end_1(p_project text, p_folder text, p_cancel boolean, p_result jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  j phasegate.job;
BEGIN
  SELECT * INTO j FROM phasegate.job WHERE project = p_project AND folder = p_folder FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF phasegate.is_held_1(j) THEN
    IF p_cancel AND NOT j.cancelled THEN
      UPDATE phasegate.job SET cancelled = true WHERE id = j.id;
    END IF;
  ELSE
    -- Whoever had it has it no longer.
    UPDATE phasegate.job SET fence = fence + 1, owner = NULL WHERE id = j.id;
    PERFORM phasegate.close_1(j.id, p_result);
  END IF;
END $$;
