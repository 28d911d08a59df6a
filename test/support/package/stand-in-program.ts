import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'

const standIn = path.join(import.meta.dirname, '../electron-stand-in/executable.ts')

/** Puts the stand-in for Electron in the place of the program of a packed app. Answers where that is. */
export async function standInProgram(bundle: string): Promise<string> {
  const program = path.join(bundle, 'Contents/MacOS', path.basename(bundle, '.app'))
  const variables = `ELECTRON_STAND_IN_INSTALLED=1 ELECTRON_STAND_IN_BUNDLE=${quoted(bundle)}`
  await writeFile(program, `#!/bin/sh\n${variables} exec ${quoted(process.execPath)} ${quoted(standIn)} "$@"\n`)
  await chmod(program, 0o755)
  return program
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
