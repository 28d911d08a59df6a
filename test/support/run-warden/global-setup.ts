import { spawn } from 'node:child_process'
import path from 'node:path'

/** Set as soon as there is one: a run has several projects. */
const variable = 'METALBAR_TEST_WARDEN'

/** What this process starts, itself or through others, does not outlive it where it is killed. Answers what ends that in good order. */
export function startWarden(): () => void {
  const warden = spawn(process.execPath, [path.join(import.meta.dirname, 'warden.ts'), String(process.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  warden.unref()
  return () => void warden.stdin.end('over')
}

export default function setup(): (() => void) | undefined {
  if (process.env[variable] !== undefined) return undefined
  process.env[variable] = String(process.pid)
  return startWarden()
}
