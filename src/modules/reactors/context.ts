// The context of the reactors module: that of code, and the finder of reactors.
import type { CodeContext } from '../code/context.ts';
import type { ReactorFinder } from './reactor-finder.ts';

export type ReactorsContext = CodeContext & { readonly reactors: ReactorFinder };
