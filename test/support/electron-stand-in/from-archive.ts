import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { readArchives } from './archive-files.ts'

/** `node --import register.ts from-archive.ts …/app.asar`: runs the app that is packed in it. */
const [, , archive = ''] = process.argv
readArchives(archive)
await import(pathToFileURL(path.join(archive, 'out/main/main.js')).href)
