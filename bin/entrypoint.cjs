'use strict';
// The image's one door: without arguments the server, with arguments the operator's command line.
require(process.argv.length > 2 ? './strongroom.cjs' : './start.cjs');
