// The walk with the client of OpenAPI Generator for Go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	vault "example.com/strongroom/client"
)

func clientOf(apiKey string) *vault.APIClient {
	configuration := vault.NewConfiguration()
	configuration.Servers = vault.ServerConfigurations{{URL: os.Getenv("VAULT_URL")}}
	configuration.AddDefaultHeader("SVC-API-KEY", apiKey)
	return vault.NewAPIClient(configuration)
}

func must[T any](value T, _ any, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func onlyToken(page *vault.TokenPage, id string) {
	if len(page.Data) != 1 || page.Data[0].GetId() != id {
		log.Panicf("not the token alone: %+v", page.Data)
	}
}

func main() {
	ctx := context.Background()
	client := clientOf(os.Getenv("SVC_API_KEY"))
	request := vault.NewCardTokenRequest("card", *vault.NewCardData("5555555555554444"))
	request.SetMetadata(map[string]string{"order": "openapi-generator-go"})
	creation := client.TokensAPI.CreateToken(ctx).CreateTokenRequest(vault.CardTokenRequestAsCreateTokenRequest(request))
	id := must(creation.Execute()).GetId()

	read := must(client.TokensAPI.GetToken(ctx, id).Execute())
	if data, _ := read.GetData().(map[string]any); data["number"] != "XXXXXXXXXXXX4444" {
		log.Panicf("not the mask: %v", data)
	}
	onlyToken(must(client.TokensAPI.ListTokens(ctx).Id([]*string{&id}).Execute()), id)
	search := vault.NewSearchRequest()
	search.SetQuery("metadata.order:openapi-generator-go")
	onlyToken(must(client.TokensAPI.SearchTokens(ctx).SearchRequest(*search).Execute()), id)

	rule := vault.NewAccessRule(1, "reveal", []string{"token:read"})
	rule.SetDescription("Raw cards")
	rule.SetContainer("/pci/")
	reader := vault.NewCreateApplicationRequest("Raw cards")
	reader.SetRules([]vault.AccessRule{*rule})
	made := must(client.ApplicationsAPI.CreateApplication(ctx).CreateApplicationRequest(*reader).Execute())

	body := map[string]any{"pan": fmt.Sprintf("{{ %s | json: '$.number' }}", id)}
	shown := must(clientOf(made.GetKey()).TokensAPI.Detokenize(ctx).Body(body).Execute())
	if data, _ := shown.(map[string]any); data["pan"] != "5555555555554444" {
		log.Panicf("not the value: %v", shown)
	}
}
