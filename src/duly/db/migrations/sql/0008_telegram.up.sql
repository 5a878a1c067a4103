-- Telegram: whom the bot meets, whom a link binds, and sessions under a name of the bot's own.

-- One Telegram id is one person: the unique key decides. The bot makes and binds people by these functions alone.

create function "user".meet_telegram(telegram bigint, spoken text) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into "user".users (uid, telegram_id, language) values ('telegram:' || telegram, telegram, spoken)
    on conflict do nothing;
    if found then
        return true;
    end if;
    -- Somebody whose Telegram id was taken off them, and who comes back.
    update "user".users as u set telegram_id = telegram
    where u.uid = 'telegram:' || telegram and u.telegram_id is null
        and not exists (select from "user".users as o where o.telegram_id = telegram);
    return found;
end
$$;
comment on function "user".meet_telegram(bigint, text) is
    'Somebody writes to the bot for the first time: they become a person, once. False when they are one.';

create function "user".link_telegram(person bigint, telegram bigint) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    update "user".users as u set telegram_id = telegram
    where u.id = person and (u.telegram_id is null or u.telegram_id = telegram);
    return found;
end
$$;
comment on function "user".link_telegram(bigint, bigint) is
    'Bind a Telegram id to somebody who has none; again is no error. False when they have another, or are not there.';

revoke all on function "user".meet_telegram(bigint, text), "user".link_telegram(bigint, bigint) from public;
grant execute on function "user".meet_telegram(bigint, text), "user".link_telegram(bigint, bigint) to {api};

-- A command that comes twice begins one session: its id is made of the message that began it.
-- Only where the table is ours: what a backend owns is begun by the backend.

do $ingest$
begin
if not exists (  -- asked so that it needs no right to the schema
    select from pg_catalog.pg_proc as f
    inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
    where n.nspname = {'ingest'} and f.proname = 'capture_session_guard'
) then
    return;
end if;
execute $make$
grant insert (id) on {ingest}.capture_session to {api};
$make$;
end
$ingest$;
