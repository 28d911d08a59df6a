import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { delimiter, join } from 'node:path'
import { accessSync, constants as fileConstants, statSync } from 'node:fs'
import { z } from 'zod'
import type { Found } from './part.ts'

/** The full path of a command, as a shell would find it. */
export function onPath(command: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, command))
    .find(isExecutable)
}

export function isExecutable(file: string): boolean {
  try {
    accessSync(file, fileConstants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** The program that the environment variable names, the one on PATH, or else the one that was built. */
export function findProgram(
  name: string,
  { variable, builtFolder }: { readonly variable: string; readonly builtFolder: string },
): Found {
  const named = process.env[variable]
  if (named !== undefined && named !== '') {
    return isExecutable(named)
      ? { found: true, path: named, origin: variable }
      : { found: false, reason: `${variable} names ${named}, which is not an executable file` }
  }
  const path = onPath(name)
  if (path !== undefined) return { found: true, path, origin: 'PATH' }
  const built = join(builtFolder, name)
  return isExecutable(built)
    ? { found: true, path: built, origin: 'built' }
    : { found: false, reason: `${name} is neither on PATH nor built: run \`make setup\`` }
}

/** Below normal: the unit tests run meanwhile, and a person may want to use the machine. */
const buildPriority = constants.priority.PRIORITY_BELOW_NORMAL

export interface RunOptions {
  readonly logFile: string
  readonly cwd?: string
  readonly env?: Record<string, string>
}

/** Runs a build tool with everything it prints going to the log; the error carries the log's last lines. */
export async function run(command: string, args: readonly string[], options: RunOptions): Promise<void> {
  await using log = await open(options.logFile, 'a+')
  await log.write(`$ ${[command, ...args].join(' ')}\n`)
  const tool = spawn(command, args, {
    stdio: ['ignore', log.fd, log.fd],
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
  })
  if (tool.pid !== undefined) setPriority(tool.pid, buildPriority)
  const [status] = z.tuple([z.number().nullable(), z.unknown()]).parse(await once(tool, 'close'))
  if (status === 0) return
  const tail = (await readTail(options.logFile)).trimEnd()
  throw new Error(`\`${command} ${args[0] ?? ''}\` failed (the whole log: ${options.logFile}):\n${tail}`)
}

async function readTail(file: string, lines = 15): Promise<string> {
  await using handle = await open(file)
  return (await handle.readFile('utf8')).trimEnd().split('\n').slice(-lines).join('\n')
}
