#!/usr/bin/env node
/**
 * The stand-in as a program that is started as Electron is, `[--inspect=0 …] -r hook.cjs FOLDER`, so that what drives Electron (Playwright,
 * `../real-electron`) is shown to work where there is none: it listens for both debuggers, and has a Chromium of its own. As the program of
 * a packed app (`../package/stand-in-program.ts`) it does as its fuses and its archive say, and passes over what it is told to load.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import inspector from 'node:inspector'
import { createRequire, registerHooks } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { FuseState, FuseV1Options, getCurrentFuseWire } from '@electron/fuses'
import { z } from 'zod'
import { findBrowser } from '../window/browser.ts'
import { readArchives } from './archive-files.ts'
import { ownBundle } from './bundle.ts'
import { app } from './electron.ts'
import { isInstalled } from './login-item.ts'
import { chromiumVariable } from './page.ts'

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'electron'
      ? { url: new URL('electron.ts', import.meta.url).href, shortCircuit: true }
      : next(specifier, context),
})

const found = findBrowser()
if ('missing' in found) throw new Error(found.missing)
/**
 * Runs a command, and kills it with all that it started when the third file descriptor is closed: by the end of the program that holds the
 * other end, however it ends. The command may be a script that stands before the browser, so its group is killed, which is why it has one.
 */
const untilClosed =
  '"$@" 3<&- & one=$!; { cat >/dev/null; kill -9 0; } <&3 & watch=$!; wait $one; code=$?; kill $watch; exit $code'
const browser = spawn(
  'sh',
  [
    ...['-c', untilClosed, 'sh', found.path],
    '--headless',
    // Its first page, which is replaced while it loads, would have Playwright wait for ever for the one that is gone. Electron opens none either.
    '--no-startup-window',
    '--remote-debugging-port=0',
    `--user-data-dir=${mkdtempSync(path.join(process.env['HOME'] ?? tmpdir(), 'chromium-'))}`,
    ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
  ],
  { detached: true, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] },
)
// Who started it is gone, so nobody ends it any more.
const starter = process.ppid
setInterval(() => {
  if (process.ppid !== starter) process.exit(1)
}, 1_000).unref()
const endpoint = await new Promise<string>((resolve, reject) => {
  let said = ''
  browser.once('exit', (code) => reject(new Error(`Chromium ended with ${code}: ${said}`)))
  browser.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said += text
    const [, host] = /^DevTools listening on ws:\/\/([^/]+)\/.*\n/m.exec(said) ?? []
    if (host !== undefined) resolve(host)
  })
})
process.env[chromiumVariable] = `http://${endpoint}`

const args = process.argv.slice(2)
const archive = path.join(ownBundle, 'Contents/Resources/app.asar')
const folder = isInstalled ? archive : (args.at(-1) ?? '')
if (isInstalled) readArchives(archive)
else createRequire(import.meta.url)(args[args.indexOf('-r') + 1] ?? '')
await import(pathToFileURL(app.readManifest(folder)).href)
app.begin()

// Says itself where it listens, as Electron does before Chromium does.
const fuses = isInstalled ? await getCurrentFuseWire(ownBundle) : undefined
const inspectors = fuses?.[FuseV1Options.EnableNodeCliInspectArguments]
if (inspectors === undefined || inspectors === FuseState.ENABLE) inspector.open(0)
const { webSocketDebuggerUrl } = z
  .object({ webSocketDebuggerUrl: z.string() })
  .parse(await (await fetch(`http://${endpoint}/json/version`)).json())
process.stderr.write(`\nDevTools listening on ${webSocketDebuggerUrl}\n`)
