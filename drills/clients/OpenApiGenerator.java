import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.ApplicationsApi;
import org.openapitools.client.api.TokensApi;
import org.openapitools.client.model.AccessRule;
import org.openapitools.client.model.CardData;
import org.openapitools.client.model.CardTokenRequest;
import org.openapitools.client.model.CreateApplicationRequest;
import org.openapitools.client.model.CreateTokenRequest;
import org.openapitools.client.model.SearchRequest;
import org.openapitools.client.model.TokenPage;

/** The walk with the client of OpenAPI Generator for Java. */
public class OpenApiGenerator {
  static ApiClient clientOf(String apiKey) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("VAULT_URL"));
    return client.setRequestInterceptor(request -> request.header("SVC-API-KEY", apiKey));
  }

  static void expect(boolean holds, Object found) {
    if (!holds) throw new AssertionError(String.valueOf(found));
  }

  static void expectOnly(TokenPage page, String id) {
    expect(page.getData().size() == 1 && id.equals(page.getData().get(0).getId()), page);
  }

  public static void main(String[] args) throws Exception {
    ApiClient client = clientOf(System.getenv("SVC_API_KEY"));
    TokensApi tokens = new TokensApi(client);
    CardTokenRequest card =
        new CardTokenRequest()
            .type(CardTokenRequest.TypeEnum.CARD)
            .data(new CardData().number("5555555555554444").expirationMonth(8).expirationYear(2031))
            .metadata(Map.of("order", "openapi-generator-java"));
    String id = tokens.createToken(new CreateTokenRequest(card), null, null).getId();

    Object data = tokens.getToken(id, null).getData();
    expect(data instanceof Map<?, ?> map && "XXXXXXXXXXXX4444".equals(map.get("number")), data);
    expectOnly(tokens.listTokens(null, null, null, List.of(id), null, null), id);
    expectOnly(tokens.searchTokens(new SearchRequest().query("metadata.order:openapi-generator-java"), null), id);

    AccessRule rule =
        new AccessRule()
            .description("Raw cards")
            .priority(1)
            .container("/pci/")
            .transform("reveal")
            .permissions(List.of("token:read"));
    CreateApplicationRequest application = new CreateApplicationRequest().name("Raw cards").rules(List.of(rule));
    String key = new ApplicationsApi(client).createApplication(application, null, null).getKey();

    Map<String, String> body = Map.of("pan", "{{ " + id + " | json: '$.number' }}");
    Object shown = new TokensApi(clientOf(key)).detokenize(body, null);
    expect(Map.of("pan", "5555555555554444").equals(shown), shown);
  }
}
