//! How the server is found, and who it must be.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Machine;
use super::server::{Server, shared, skip};

/// How the store is, at an address.
fn status(machine: &Machine, url: &str, env: &[(&str, &str)]) -> Value {
    let mut command = machine.scene.command();
    command.args(["store", "status", "--json"]).env("PHASEGATE_STORE", url);
    command.envs(env.iter().copied());
    let ran = machine.scene.at_terminal(command);
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[track_caller]
fn is_reached(status: &Value) {
    assert!(status["server"].as_str().is_some_and(|it| it.starts_with("PostgreSQL ")), "{status}");
}

#[track_caller]
fn is_refused(status: &Value, why: &str) {
    let problems = status["problems"].to_string();
    assert!(status["server"].is_null() && problems.contains(why), "{why:?}: {status}");
    assert!(!status.to_string().contains("secret"), "{status}");
}

#[test]
fn of_several_hosts_the_one_that_can_be_written_to_is_taken() {
    let Some(server) = shared() else { return };
    let reader = Server::start(&["fsync=off", "default_transaction_read_only=on"]).unwrap();
    let one = Machine::new("");
    let (dead, read, write) = (1, reader.port, server.port);
    let hosts = format!("127.0.0.1:{dead},127.0.0.1:{read},127.0.0.1:{write}");
    let url = format!("postgres://postgres@{hosts}/postgres?sslmode=disable");
    let told = status(&one, &url, &[]);
    is_reached(&told);
    assert_eq!(told["place"], format!("postgres://postgres@{hosts}/postgres"));
    let port = |url: &str| {
        let told = status(&one, url, &[]);
        told["problems"].to_string()
    };
    // With `any`, the second one would do, and says that it cannot be written to.
    let any = format!("{url}&target_session_attrs=any");
    is_reached(&status(&one, &any, &[]));
    let two = url.replace(&format!(",127.0.0.1:{write}"), "");
    assert!(port(&two).contains("cannot be reached"), "nobody can be written to");
}

#[test]
fn a_service_and_a_password_are_read_as_psql_reads_them() {
    let Some(server) = shared() else { return };
    let name = "team_of_service";
    server.sql("postgres", &format!("CREATE ROLE {name} LOGIN PASSWORD 'se:cret'"));
    let hba = Path::new(&server.data()).join("pg_hba.conf");
    let rest = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("host all {name} 127.0.0.1/32 scram-sha-256\n{rest}")).unwrap();
    server.reload();
    let one = Machine::new("");
    let service =
        format!("[team]\nhost=127.0.0.1\nport={}\ndbname=postgres\nuser={name}\n", server.port);
    one.scene.file("home/.pg_service.conf", service);
    is_refused(&status(&one, "service=team", &[]), "password");
    one.scene.file("home/.pgpass", format!("127.0.0.1:*:postgres:{name}:se\\:cret\n"));
    let pass = one.scene.path("home/.pgpass");
    let mode = |mode| std::fs::set_permissions(&pass, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    is_refused(&status(&one, "service=team", &[]), "chmod 0600");
    mode(0o600);
    for url in ["service=team", "postgres://?service=team&sslmode=disable"] {
        is_reached(&status(&one, url, &[]));
    }
    is_reached(&status(&one, "postgres://", &[("PGSERVICE", "team")]));
    is_refused(&status(&one, "service=team", &[("PGPASSWORD", "secret of another")]), "password");
}

#[test]
fn with_tls_the_server_must_be_who_it_is_said_to_be() {
    let Some(server) = Server::start(&["fsync=off"]) else { return skip("PostgreSQL") };
    let folder = server.folder().to_path_buf();
    let openssl = |args: &str| {
        let output = Command::new("openssl").args(args.split(' ')).current_dir(&folder).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{args}: {output:?}");
    };
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    for name in ["ca", "other"] {
        openssl(&format!("{request} -keyout {name}.key -out {name}.crt -subj /CN={name}"));
    }
    openssl(
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
    );
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt",
    );
    let key = folder.join("server.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    Command::new("chown").arg("--reference").arg(server.data()).arg(&key).status().unwrap();
    let settings = format!(
        "ssl = on\nssl_cert_file = '{0}/server.crt'\nssl_key_file = '{0}/server.key'\n",
        folder.display()
    );
    server.append("postgresql.conf", &settings);
    // Whoever does not come with TLS is sent away.
    let hba = Path::new(&server.data()).join("pg_hba.conf");
    let local = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
    std::fs::write(hba, local).unwrap();
    server.kill();
    server.go();
    let one = Machine::new("");
    let at = |host: &str, mode: &str, roots: &str| {
        let roots = match roots {
            "" => String::new(),
            name => format!("&sslrootcert={}/{name}.crt", folder.display()),
        };
        let port = server.port;
        let url = format!("postgres://postgres@{host}:{port}/postgres?sslmode={mode}{roots}");
        status(&one, &url, &[])
    };
    is_reached(&at("localhost", "verify-full", "ca"));
    // The certificate is for another name, or another authority has made it.
    is_refused(&at("127.0.0.1", "verify-full", "ca"), "not valid for name");
    is_refused(&at("localhost", "verify-full", "other"), "UnknownIssuer");
    is_refused(&at("127.0.0.1", "verify-ca", "other"), "UnknownIssuer");
    is_reached(&at("127.0.0.1", "verify-ca", "ca"));
    is_reached(&at("127.0.0.1", "require", ""));
    is_reached(&at("127.0.0.1", "prefer", ""));
    is_refused(&at("127.0.0.1", "disable", ""), "no pg_hba.conf entry");
}
