//! Who may do what.

use crate::support::{Place, user};
use serde_json::json;
use tapedb_access::{May, Users};
use tapedb_web::WebLimits;

const ALL: &[May] = &[May::Read, May::Write, May::Create, May::Admin];

fn place() -> Place {
    let users = [
        user("ann", &[("ticks", &[May::Read])]),
        user("root", &[("*", ALL)]),
        user("seer", &[("hidden", &[May::Write])]),
    ];
    let place = Place::with(&users, WebLimits::default());
    place.ticks("ticks", 10);
    place.ticks("hidden", 10);
    place
}

#[test]
fn a_session_begins_with_a_login_and_ends() {
    let place = place();
    let session = place.get("/api/session").json();
    assert_eq!((&session["user"], &session["login"]), (&json!(null), &json!(true)));
    assert_eq!(place.get("/api/streams").status, 401);
    let wrong = place.send("POST", "/api/login", "", &json!({ "user": "ann", "password": "wrong" }));
    assert_eq!((wrong.status, wrong.json()["code"].as_str()), (401, Some("wrong")));
    let answer = place.send("POST", "/api/login", "", &json!({ "user": "ann", "password": "secret" }));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = place.login("ann");
    let session = place.get_as("/api/session", &cookie).json();
    assert_eq!(
        (&session["user"], &session["admin"], &session["sql"]),
        (&json!("ann"), &json!(false), &json!(false))
    );
    assert_eq!(place.send("POST", "/api/logout", &cookie, &json!({})).status, 200);
    assert_eq!(place.get_as("/api/streams", &cookie).status, 401);
    assert_eq!(place.get_as("/api/streams", "tapedb-1=x").status, 401);
    let basic = place.ask("GET", "/api/streams", &[("Authorization", "Basic YW5uOnNlY3JldA==")], "");
    assert_eq!(basic.status, 200);
    let audit = place.audit();
    for event in [
        "\"event\":\"refused\",\"user\":\"ann\"",
        "\"event\":\"login\",\"user\":\"ann\"",
        "\"event\":\"logout\",\"user\":\"ann\"",
    ] {
        assert!(audit.contains(event), "{audit}");
    }
}

#[test]
fn hidden_streams_do_not_exist() {
    let place = place();
    let ann = place.login("ann");
    let streams = place.get_as("/api/streams", &ann).json();
    let names: Vec<&str> =
        streams["streams"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ticks"]);
    for path in [
        "",
        "/symbols",
        "/messages",
        "/histogram",
        "/chart?symbol=A",
        "/book?symbol=A",
        "/heatmap?symbol=A",
        "/gaps",
    ] {
        let hidden = place.get_as(&format!("/api/streams/hidden{path}"), &ann);
        let missing = place.get_as(&format!("/api/streams/missed{path}"), &ann);
        assert_eq!((hidden.status, missing.status), (404, 404), "{path}");
        assert_eq!(hidden.body.replace("hidden", "missed"), missing.body, "{path}");
    }
    for (method, path) in [("DELETE", "/api/streams/hidden"), ("PATCH", "/api/streams/hidden")] {
        assert_eq!(place.send(method, path, &ann, &json!({})).status, 404);
    }
    let catalog = place.get_as("/api/catalog", &ann).body;
    assert!(catalog.contains("ticks") && !catalog.contains("hidden"), "{catalog}");
    let seer = place.login("seer");
    assert_eq!(place.get_as("/api/streams/hidden", &seer).status, 200, "it may be seen");
    assert_eq!(place.get_as("/api/streams/hidden/messages", &seer).status, 403, "and not be read");
}

#[test]
fn administration_needs_its_right_and_is_audited() {
    let place = place();
    let (ann, root) = (place.login("ann"), place.login("root"));
    let bob = json!({ "password": "other", "rights": [{ "streams": "ticks", "may": ["read"] }] });
    for (method, path) in [
        ("GET", "/api/users"),
        ("PUT", "/api/users/bob"),
        ("DELETE", "/api/users/ann"),
        ("DELETE", "/api/connections/1"),
    ] {
        assert_eq!(place.send(method, path, &ann, &bob).status, 403, "{method} {path}");
    }
    assert_eq!(place.send("DELETE", "/api/streams/ticks", &ann, &json!({})).status, 403);
    assert_eq!(place.send("PUT", "/api/users/bob", &root, &bob).status, 200);
    let users = place.get_as("/api/users", &root);
    assert!(users.body.contains("\"bob\"") && !users.body.contains("argon2"), "{users:?}");
    assert!(Users::read(&place.path("users.toml")).unwrap().get("bob").is_some());
    assert_eq!(
        place
            .send("PUT", "/api/users/bob", &root, &json!({ "rights": [{ "streams": "*", "may": ["fly"] }] }))
            .status,
        400
    );
    assert_eq!(place.send("DELETE", "/api/users/bob", &root, &json!({})).status, 200);
    assert_eq!(place.send("DELETE", "/api/users/bob", &root, &json!({})).status, 404);
    let rights = json!({ "rights": [{ "streams": "hidden", "may": ["read"] }] });
    assert_eq!(place.send("PUT", "/api/users/ann", &root, &rights).status, 200);
    assert_eq!(place.get_as("/api/streams", &ann).status, 401, "the session ends when rights change");
    let retention = json!({ "retention": { "seconds": 3600, "bytes": null } });
    let altered = place.send("PATCH", "/api/streams/hidden", &root, &retention);
    assert_eq!(altered.json()["retention"]["seconds"], 3600, "{altered:?}");
    assert_eq!(
        place.send("PATCH", "/api/streams/hidden", &root, &json!({ "durability": "sync" })).status,
        400
    );
    assert_eq!(place.send("DELETE", "/api/streams/hidden", &root, &json!({})).status, 200);
    assert_eq!(place.get_as("/api/streams/hidden", &root).status, 404);
    let audit = place.audit();
    for event in [
        "\"event\":\"forbidden\",\"user\":\"ann\"",
        "\"event\":\"user\",\"user\":\"root\"",
        "\"event\":\"delete-user\"",
        "\"event\":\"delete\",\"user\":\"root\"",
        "\"event\":\"alter\"",
    ] {
        assert!(audit.contains(event), "{event}: {audit}");
    }
    assert!(!audit.contains("other"), "no password");
}

#[test]
fn without_users_every_client_of_this_machine_has_all_rights() {
    let place = Place::new();
    let session = place.get("/api/session").json();
    assert_eq!(
        (&session["user"], &session["login"], &session["admin"]),
        (&json!("anonymous"), &json!(false), &json!(true))
    );
    assert_eq!(place.send("PUT", "/api/users/bob", "", &json!({})).status, 400, "there is no users file");
    assert_eq!(place.get("/api/connections").json(), json!({ "connections": [] }));
    assert_eq!(place.send("DELETE", "/api/connections/7", "", &json!({})).status, 404);
    assert_eq!(place.get("/api/topics").json(), json!({ "topics": [] }));
}
