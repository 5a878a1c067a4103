-- Without ingest. What it wrote into the log stays there.

drop table {ingest}.schedule_notification;
drop table {ingest}.schedule_event;
drop table {ingest}.day_snapshot;
drop table {ingest}.schedule_version;
drop table {ingest}.day_schedule;
drop table {ingest}.capture_image;
drop table {ingest}.capture_session;
drop type {ingest}.capture_session_state;
revoke all on schema {ingest} from {worker}, {api}, {readonly};
