// Java's client sends more than the server reads, and has to see the response that came before.
//
// java EarlyResponse.java HTTP-URL HTTPS-URL CERTIFICATE
//
// Each URL refuses the sent content. Over HTTP/1 any length is dropped; over HTTP/2 up to a
// mebibyte.

import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

class EarlyResponse {
    static final int LARGE_BYTES = 16 << 20;
    static final int LITTLE_BYTES = 900 << 10;

    public static void main(String[] arguments) throws Exception {
        SSLContext trusting = trusting(arguments[2]);
        int seen = 0;
        for (int round = 0; round < 3; round++) {
            send(trusting, HttpClient.Version.HTTP_1_1, arguments[0], LARGE_BYTES);
            send(trusting, HttpClient.Version.HTTP_1_1, arguments[1], LARGE_BYTES);
            send(trusting, HttpClient.Version.HTTP_2, arguments[1], LITTLE_BYTES);
            seen += 3;
        }
        System.out.print(seen);
    }

    static void send(SSLContext context, HttpClient.Version version, String url, int bytes)
            throws Exception {
        HttpClient client = HttpClient.newBuilder().sslContext(context).version(version).build();
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(url))
                        .timeout(Duration.ofSeconds(60))
                        .POST(HttpRequest.BodyPublishers.ofByteArray(new byte[bytes]))
                        .build();
        HttpResponse<String> response =
                client.send(request, HttpResponse.BodyHandlers.ofString());
        int status = response.statusCode();
        if (response.version() != version || status != 405 && status != 413) {
            throw new AssertionError(response.version() + " " + status);
        }
    }

    static SSLContext trusting(String certificate) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream file = new FileInputStream(certificate)) {
            var made = CertificateFactory.getInstance("X.509").generateCertificate(file);
            store.setCertificateEntry("server", made);
        }
        String usual = TrustManagerFactory.getDefaultAlgorithm();
        TrustManagerFactory managers = TrustManagerFactory.getInstance(usual);
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }
}
