import { pathToFileURL } from 'node:url'
import { readArchives } from './archive-files.ts'
import { app } from './electron.ts'

/** `node --import register.ts run-app.ts FOLDER`, or `…/app.asar`: runs the app that its package.json names. Also one module alone. */
const [, , given = ''] = process.argv
if (given.endsWith('.asar')) readArchives(given)
// Electron is ready only after this: a module that waits for that waits for ever.
await import(pathToFileURL(/\.m?[jt]s$/.test(given) ? given : app.readManifest(given)).href)
app.begin()
