-- Back to nothing. The schemas and roles stay: others may have put something there.

drop table duly.transition;
drop table duly.workers;
drop table duly.api_keys;
drop table "user".users;
drop table duly.orgs;
drop function duly.refuse_change();
drop function duly.touch();
drop function duly.is_time_zone(text);
drop function duly.new_id();
drop function duly.now();
drop function duly.clock();
