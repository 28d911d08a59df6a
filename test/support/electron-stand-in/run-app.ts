import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { readArchives } from './archive-files.ts'
import { app } from './electron.ts'

/** `node --import register.ts run-app.ts …/main.js`, or `…/app.asar`: runs the app that is packed in it. */
const [, , given = ''] = process.argv
const isArchive = given.endsWith('.asar')
if (isArchive) readArchives(given)
// Electron is ready only after this: a module that waits for that waits for ever.
await import(pathToFileURL(isArchive ? path.join(given, 'out/main/main.js') : given).href)
app.begin()
