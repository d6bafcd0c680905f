// How commands are given where this process runs: by npm in a checkout, by npx in a package, by Docker in an image. All advice
// has these words.
// Read here and not from the configuration: errors that come before it give advice too, and a worker gets it at its start.
const ofImage = process.env['STRONGROOM_COMMAND'] || undefined;

/** Whether this is one of the images: they say how their commands are given, and their file system goes with the container. */
export const IS_IMAGE = ofImage !== undefined;

/** The first word of the operator's commands, which need the database and the root key. */
export const ADMIN = 'admin';

/** What stands before a command of the operator and its options. */
export const PROGRAM = `${
  ofImage ?? (import.meta.url.includes('/node_modules/strongroom/') ? 'npx strongroom' : 'npm run -s strongroom --')
} ${ADMIN}`;

/** What applies pending migrations. */
export const MIGRATE = IS_IMAGE ? `${PROGRAM} migrate` : 'npm run migrate';

/** What writes the secrets for compose. */
export const SETUP = IS_IMAGE ? 'docker compose run --rm setup' : 'npm run setup';

/** What starts a server. */
export const START = IS_IMAGE ? 'start the container' : 'npm start';
