import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { parse } from 'plist'
import { z } from 'zod'

/** Where the app is; a test that gives one makes it with `makeBundle`. */
export const ownBundle = process.env['ELECTRON_STAND_IN_BUNDLE'] ?? '/Applications/Metalbar.app'

/** Of an app, in place of Apple's: who signed it, and what the files were then. */
const signature = z.object({ team: z.string(), files: z.record(z.string(), z.string()) })
const infoPlist = z.object({ CFBundleShortVersionString: z.string(), CFBundleIdentifier: z.string() })

const signatureFile = 'Contents/_CodeSignature/CodeResources'

export const infoOf = (bundle: string) =>
  infoPlist.parse(parse(readFileSync(path.join(bundle, 'Contents/Info.plist'), 'utf8')))

/** Undefined where the app is not signed. Throws where something of it has changed since. */
export function signerOf(bundle: string): string | undefined {
  const files = filesIn(bundle)
  if (!files.includes(signatureFile)) return undefined
  const { team, files: signed } = signature.parse(JSON.parse(readFileSync(path.join(bundle, signatureFile), 'utf8')))
  const now = hashesOf(bundle)
  if (JSON.stringify(now) !== JSON.stringify(signed)) throw new Error('a sealed resource is missing or invalid')
  return `${infoOf(bundle).CFBundleIdentifier} ${team}`
}

export function sign(bundle: string, team: string): void {
  writeFileSync(path.join(bundle, signatureFile), JSON.stringify({ team, files: hashesOf(bundle) }))
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
    .sort()

const hashesOf = (bundle: string): Record<string, string> =>
  Object.fromEntries(
    filesIn(bundle)
      .filter((file) => file !== signatureFile)
      .map((file) => [
        file,
        createHash('sha256')
          .update(readFileSync(path.join(bundle, file)))
          .digest('hex'),
      ]),
  )
