import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import path from 'node:path'

/** By the folder of the app, as Chromium does; the first is told of the second. Answers, where there is one already, when that was told. */
export function singleInstance(folder: string, onSecond: () => void): { told: Promise<void> } | undefined {
  const lock = path.join(folder, 'SingletonLock')
  const socket = path.join(folder, 'SingletonSocket')
  try {
    process.kill(Number(readFileSync(lock, 'utf8')), 0)
  } catch {
    writeFileSync(lock, String(process.pid))
    rmSync(socket, { force: true })
    createServer((second) => second.end(onSecond)).listen(socket)
    process.once('exit', () => rmSync(lock))
    return undefined
  }
  const told = new Promise<void>((resolve) => {
    connect(socket)
      .on('close', () => resolve())
      .on('error', () => resolve())
  })
  return { told }
}
