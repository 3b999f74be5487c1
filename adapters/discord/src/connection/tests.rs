use super::*;

#[test]
fn the_version_of_the_gateway_is_that_of_the_address() {
    let of = |address: &str| version(&base_url(address).unwrap());
    assert_eq!((of("https://discord.com/api/v10"), of("http://a.b/api/v9"), of("http://a.b")), (10, 9, VERSION));
}
