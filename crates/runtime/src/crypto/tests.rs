//! Vectors of the standards, and properties. Operations in place equal those out of place. Opening
//! undoes sealing, and nothing else opens.
use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks_exact(2).map(|p| (p[0] << 4 | p[1]) as u8).collect()
}

fn is(op: Op, args: &[&[u8]], want: &str) {
    assert_eq!(compute(op, args), Some(hex(want)), "{op:?}");
}

const MESSAGE: &[u8] = b"Single block msg";

#[test]
fn cbc_as_in_rfc_3602() {
    let (key, iv) = (hex("06a9214036b8a15b512e03d534120006"), hex("3dafba429d9eb430b422da802c9fac41"));
    is(Op::AesCbcEncrypt, &[&key, &iv, MESSAGE], "e353779c1079aeb82708942dbe77181a");
    let (key, iv) = (hex("c286696d887c9aa0611bbb3e2025a45a"), hex("562e17996d093d28ddb3ba695a2e6f58"));
    let (plain, secret): (Vec<u8>, _) =
        ((0..32).collect(), "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1");
    is(Op::AesCbcEncrypt, &[&key, &iv, &plain], secret);
    assert_eq!(compute(Op::AesCbcDecrypt, &[&key, &iv, &hex(secret)]), Some(plain));
}

#[test]
fn ctr_as_in_rfc_3686_and_sp_800_38a() {
    let block = |nonce: &str, iv: &str| [hex(nonce), hex(iv), vec![0, 0, 0, 1]].concat();
    is(
        Op::AesCtr,
        &[&hex("ae6852f8121067cc4bf7a5765577f39e"), &block("00000030", "0000000000000000"), MESSAGE],
        "e4095d4fb7a7b3792d6175a3261311b8",
    );
    let key = hex("776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104");
    is(Op::AesCtr, &[&key, &block("00000060", "db5672c97aa8f0b2"), MESSAGE], "145ad01dbf824ec7560863dc71e3e0c0");
    let key = hex("f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884");
    let plain: Vec<u8> = (0..32).collect();
    is(
        Op::AesCtr,
        &[&key, &block("00faac24", "c1585ef15a43d875"), &plain],
        "f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c",
    );
    let key = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
    let first = hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
    is(Op::AesCtr, &[&key, &first, &hex("6bc1bee22e409f96e93d7e117393172a")], "601ec313775789a5b7a7f504bbf3d228");
}

const GCM_KEY: &str = "feffe9928665731c6d6a8f9467308308";
const GCM_PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const GCM_AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
const GCM_NONCE: &str = "cafebabefacedbaddecaf888";

/// Cases 4 and 16 of the paper that SP 800-38D stands on.
#[test]
fn gcm_as_its_authors_say() {
    let (nonce, aad, plain) = (hex(GCM_NONCE), hex(GCM_AAD), hex(GCM_PLAIN));
    let short = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091\
                 5bc94fbc3221a5db94fae95ae7121a47";
    is(Op::AesGcmSeal, &[&hex(GCM_KEY), &nonce, &aad, &plain], short);
    let long = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662\
                76fc6ece0f4e1768cddf8853bb2d551b";
    let key = hex(&GCM_KEY.repeat(2));
    is(Op::AesGcmSeal, &[&key, &nonce, &aad, &plain], long);
    assert_eq!(compute(Op::AesGcmOpen, &[&key, &nonce, &aad, &hex(long)]), Some(plain));
    // Nothing sealed: the tag alone.
    is(Op::AesGcmSeal, &[&[0; 16], &[0; 12], b"", b""], "58e2fccefa7e3061367f1d57a4e7455a");
}

#[test]
fn macs_as_in_rfc_2202_and_4231() {
    is(Op::HmacSha1, &[&[0x0b; 20], b"Hi There"], "b617318655057264e28bc0b6fb378c8ef146be00");
    is(Op::HmacSha1, &[b"Jefe", b"what do ya want ", b"for nothing?"], "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    is(
        Op::HmacSha1,
        &[&[0xaa; 80], b"Test Using Larger Than Block-Size Key - Hash Key First"],
        "aa4ae5e15272d00e95705637ce8a3b55ed402112",
    );
    is(Op::HmacSha256, &[&[0x0b; 20], b"Hi There"], "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    is(
        Op::HmacSha256,
        &[b"Jefe", b"what do ya want for nothing?"],
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    );
    is(Op::Sha1, &[b"a", b"bc"], "a9993e364706816aba3e25717850c26c9cd0d89d");
    is(Op::Sha256, &[b"abc"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    is(Op::Sha1, &[b""], "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

/// The bytes of an operation whose data lies where the result goes.
fn in_one_place(op: Op, args: &[&[u8]]) -> Option<Vec<u8>> {
    let (data, rest) = args.split_last().unwrap();
    let mut bytes = data.to_vec();
    bytes.resize(room(op, data.len()), 0xee);
    let mut list: Vec<wl_bytes> = rest.iter().map(|a| wl_bytes::of(a)).collect();
    list.push(wl_bytes { p: bytes.as_ptr(), n: data.len() as u32, _pad: 0 });
    let out = bytes.as_mut_ptr();
    // SAFETY: valid arguments; `out` is where the data is and has room.
    let n = unsafe { entry(op as u32, list.as_ptr(), list.len() as u32, out) };
    bytes.truncate(usize::try_from(n).ok()?);
    Some(bytes)
}

#[test]
fn in_place_is_the_same() {
    for n in (0..70).chain([255, 256, 1499, 1500, 65535]) {
        let data = random(n).unwrap();
        for key in [random(16).unwrap(), random(32).unwrap()] {
            let (block, nonce, aad) = (random(16).unwrap(), random(12).unwrap(), random(n % 21).unwrap());
            let secret = compute(Op::AesCtr, &[&key, &block, &data]).unwrap();
            assert_eq!(in_one_place(Op::AesCtr, &[&key, &block, &data]).unwrap(), secret);
            assert_eq!(in_one_place(Op::AesCtr, &[&key, &block, &secret]).unwrap(), data);
            let sealed = compute(Op::AesGcmSeal, &[&key, &nonce, &aad, &data]).unwrap();
            assert_eq!(in_one_place(Op::AesGcmSeal, &[&key, &nonce, &aad, &data]).unwrap(), sealed);
            assert_eq!(in_one_place(Op::AesGcmOpen, &[&key, &nonce, &aad, &sealed]).unwrap(), data);
            assert_eq!(compute(Op::AesGcmOpen, &[&key, &nonce, &aad, &sealed]).unwrap(), data);
            let secret = compute(Op::AesCbcEncrypt, &[&key, &block, &data]);
            assert_eq!(secret.is_some(), n % 16 == 0);
            if let Some(secret) = secret {
                assert_eq!(in_one_place(Op::AesCbcEncrypt, &[&key, &block, &data]).unwrap(), secret);
                assert_eq!(in_one_place(Op::AesCbcDecrypt, &[&key, &block, &secret]).unwrap(), data);
            }
        }
    }
}

#[test]
fn what_was_changed_does_not_open() {
    let (key, nonce, aad) = ([7; 32], [8; 12], [9; 8]);
    let sealed = compute(Op::AesGcmSeal, &[&key, &nonce, &aad, b"some text"]).unwrap();
    for i in 0..sealed.len() * 8 {
        let mut bad = sealed.clone();
        bad[i / 8] ^= 1 << (i % 8);
        assert_eq!(compute(Op::AesGcmOpen, &[&key, &nonce, &aad, &bad]), None);
        assert_eq!(in_one_place(Op::AesGcmOpen, &[&key, &nonce, &aad, &bad]), None);
    }
    for n in 0..sealed.len() {
        assert_eq!(compute(Op::AesGcmOpen, &[&key, &nonce, &aad, &sealed[..n]]), None);
    }
    assert_eq!(compute(Op::AesGcmOpen, &[&key, &nonce, b"other", &sealed]), None);
    assert_eq!(compute(Op::AesGcmOpen, &[&[6; 32], &nonce, &aad, &sealed]), None);
    assert!(same(b"abc", b"abc") && !same(b"abc", b"abd") && !same(b"abc", b"ab") && same(b"", b""));
}

#[test]
fn wrong_sizes_and_operations_are_refused() {
    for n in (0..40).filter(|n| ![16, 32].contains(n)) {
        let key = vec![1; n];
        assert_eq!(compute(Op::AesCtr, &[&key, &[0; 16], b"data"]), None);
        assert_eq!(compute(Op::AesGcmSeal, &[&key, &[0; 12], b"", b"data"]), None);
    }
    for n in (0..20).filter(|n| *n != 16) {
        assert_eq!(compute(Op::AesCtr, &[&[1; 16], &vec![0; n], b"data"]), None);
    }
    assert_eq!(compute(Op::AesGcmSeal, &[&[1; 16], &[0; 16], b"", b"data"]), None);
    assert_eq!(compute(Op::AesCbcDecrypt, &[&[1; 16], &[0; 16], &[0; 17]]), None);
    assert_eq!(compute(Op::AesCtr, &[&[1; 16]]), None);
    // SAFETY: valid arguments, and nothing is written.
    let answer = unsafe { entry(99, [wl_bytes::EMPTY].as_ptr(), 1, std::ptr::null_mut()) };
    assert_eq!(answer, -1);
}

/// More keys than there are places, each used again and again: every one gives its own result.
#[test]
fn keys_are_told_apart() {
    let key = |i: u32| [[0x5a; 12].as_slice(), &i.to_be_bytes()].concat();
    let first: Vec<_> = (0..40).map(|i| compute(Op::AesCtr, &[&key(i), &[0; 16], &[0; 16]]).unwrap()).collect();
    assert_eq!(first.iter().collect::<std::collections::HashSet<_>>().len(), 40);
    for i in 0..20_000 {
        compute(Op::AesCtr, &[&key(i), &[0; 16], &[0; 16]]).unwrap();
    }
    for (i, was) in first.iter().enumerate() {
        let key = key(i as u32);
        assert_eq!(compute(Op::AesCtr, &[&key, &[0; 16], &[0; 16]]).as_ref(), Some(was));
        // The same bytes as a key of another kind.
        assert_ne!(compute(Op::AesCbcEncrypt, &[&key, &[0; 16], &[1; 16]]).as_ref(), Some(was));
        assert_eq!(compute(Op::HmacSha1, &[&key, b"x"]).unwrap().len(), 20);
    }
}

#[test]
fn random_bytes_differ() {
    let (a, b) = (random(32).unwrap(), random(32).unwrap());
    assert!(a.len() == 32 && a != b && a != [0; 32]);
    assert_eq!(random(0), Some(vec![]));
}
