-- Without other voices. Links that were sent lead nowhere.

drop table posts.objectives;
drop table duly.link_keys;
drop table "user".apprise_addresses;
