-- People: when they may be written to, whom the bot meets, and whom a link binds.

create or replace trigger person_touch before update on duly.person for each row execute function duly.touch();
create or replace trigger webhooks_touch before update on duly.webhooks for each row execute function duly.touch();
create or replace trigger apprise_addresses_touch before update on duly.apprise_addresses
    for each row execute function duly.touch();

create or replace function duly.after_quiet(at timestamptz, zone text, quiet_from time, quiet_until time)
    returns timestamptz
    language sql stable parallel safe
    return case
        when quiet_from is null then at
        when quiet_from < quiet_until and (at at time zone zone)::time >= quiet_from
            and (at at time zone zone)::time < quiet_until
            then greatest(at, ((at at time zone zone)::date + quiet_until) at time zone zone)
        when quiet_from > quiet_until and (at at time zone zone)::time >= quiet_from
            then greatest(at, ((at at time zone zone)::date + 1 + quiet_until) at time zone zone)
        when quiet_from > quiet_until and (at at time zone zone)::time < quiet_until
            then greatest(at, ((at at time zone zone)::date + quiet_until) at time zone zone)
        else at
    end;
comment on function duly.after_quiet(timestamptz, text, time, time) is
    'When a person may be notified: at once, or at the end of the quiet hours that this time lies in.';

-- One Telegram id is one person: the unique key decides. The bot makes and binds people by these functions alone.

create or replace function duly.meet_telegram(telegram bigint, spoken text) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    insert into duly.person (uid, telegram_id, language) values ('telegram:' || telegram, telegram, spoken)
    on conflict do nothing;
    if found then
        return true;
    end if;
    -- A person whose Telegram id was unlinked, and who writes again.
    update duly.person as p set telegram_id = telegram
    where p.uid = 'telegram:' || telegram and p.telegram_id is null
        and not exists (select from duly.person as o where o.telegram_id = telegram);
    return found;
end
$$;
comment on function duly.meet_telegram(bigint, text) is
    'Create the person of a Telegram id on their first message to the bot; false if there is one.';

create or replace function duly.link_telegram(person bigint, telegram bigint) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
begin
    update duly.person as p set telegram_id = telegram
    where p.id = person and (p.telegram_id is null or p.telegram_id = telegram);
    return found;
end
$$;
comment on function duly.link_telegram(bigint, bigint) is
    'Link a Telegram id to a person without one; repeating it is no error. False if they have another, or do not '
    'exist.';

-- Privileges ----------------------------------------------------------------------------------------------------------

grant select on duly.orgs, duly.person to {worker}, {api}, {readonly};
grant select on duly.api_keys to {api};
grant select (id, name, prefix, scopes, org_id, person_id, created_at, expires_at, revoked_at)
    on duly.api_keys to {readonly};
grant select on duly.link_keys to {worker}, {api};
grant select on duly.webhooks to {worker};
grant select (person_id, url, created_at, updated_at) on duly.webhooks to {api}, {readonly};
grant select on duly.apprise_addresses to {worker};
grant select (person_id, service, created_at, updated_at) on duly.apprise_addresses to {api}, {readonly};
grant select, insert, update, delete on duly.calendars to {api};
grant execute on function duly.after_quiet(timestamptz, text, time, time)
    to {worker}, {api}, {readonly};
grant execute on function duly.meet_telegram(bigint, text), duly.link_telegram(bigint, bigint) to {api};
