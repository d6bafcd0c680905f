// Loaded with --import by generators of clients, which use the compiler's JavaScript interface: TypeScript 7 has none, so
// `typescript` leads them to version 5, installed beside it under another name.
import { registerHooks } from 'node:module';

registerHooks({
  resolve: (specifier, context, next) => next(specifier === 'typescript' ? 'typescript-5' : specifier, context),
});
