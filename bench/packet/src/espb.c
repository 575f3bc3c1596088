/* espb CIPHER BYTES PACKETS: ESP's cryptography by OpenSSL's EVP called per packet, a fresh IV and
 * a fresh MAC for each. `ctr` is AES-256-CTR with HMAC-SHA1, `gcm` AES-256-GCM with 8 bytes of
 * associated data. Prints CPU ns per packet as JSON. */
#include "trace.h"
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

static EVP_CIPHER_CTX *cipher(const char *name) {
    static const uint8_t key[32] = {1}, iv[16] = {2};
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    if (!EVP_EncryptInit_ex(c, EVP_get_cipherbyname(name), NULL, key, iv)) { fprintf(stderr, "no %s\n", name); exit(1); }
    EVP_CIPHER_CTX_set_padding(c, 0);
    return c;
}
static EVP_MAC_CTX *hmac(void) {
    static const uint8_t key[20] = {3};
    EVP_MAC_CTX *c = EVP_MAC_CTX_new(EVP_MAC_fetch(NULL, "HMAC", NULL));
    OSSL_PARAM p[2] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA1"}, 0), OSSL_PARAM_construct_end()};
    if (!EVP_MAC_init(c, key, sizeof key, p)) { fprintf(stderr, "no HMAC\n"); exit(1); }
    return c;
}

int main(int argc, char **argv) {
    if (argc != 4) { fprintf(stderr, "usage: espb ctr|gcm BYTES PACKETS\n"); return 2; }
    const int gcm = !strcmp(argv[1], "gcm"), bytes = atoi(argv[2]);
    const long packets = atol(argv[3]);
    static uint8_t in[64][2048], out[2048], tag[64];
    if (bytes < 1 || bytes > 2048) return 2;
    EVP_CIPHER_CTX *c = cipher(gcm ? "AES-256-GCM" : "AES-256-CTR");
    EVP_MAC_CTX *m = gcm ? NULL : hmac();
    double begin = 0;
    for (long i = -packets / 10; i < packets; i++) {
        uint8_t iv[16] = {0};
        int n;
        size_t mac;
        if (i == 0) begin = cpu_ns();
        memcpy(iv, &i, sizeof i);
        EVP_EncryptInit_ex(c, NULL, NULL, NULL, iv);
        if (gcm) EVP_EncryptUpdate(c, NULL, &n, iv, 8);
        EVP_EncryptUpdate(c, out, &n, in[i & 63], bytes);
        if (gcm) {
            EVP_EncryptFinal_ex(c, out + n, &n);
            EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, 16, tag);
        } else {
            EVP_MAC_init(m, NULL, 0, NULL);
            EVP_MAC_update(m, out, (size_t)bytes);
            EVP_MAC_final(m, tag, &mac, sizeof tag);
        }
    }
    printf("{\"ns\":%.2f}\n", (cpu_ns() - begin) / (double)packets);
    return 0;
}
