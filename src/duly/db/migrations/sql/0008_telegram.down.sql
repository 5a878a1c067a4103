-- Without a bot. People stay, with their Telegram ids.

do $ingest$
begin
if not exists (  -- asked so that it needs no right to the schema
    select from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = {'ingest'} and f.proname = 'capture_session_guard'
) then
    return;
end if;
execute $drop$
revoke insert (id) on {ingest}.capture_session from {api};
$drop$;
end
$ingest$;

drop function "user".link_telegram(bigint, bigint);
drop function "user".meet_telegram(bigint, text);
