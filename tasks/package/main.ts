import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { buildCommand } from './command.ts'

const folder = path.join(import.meta.dirname, '../../out/package')
const name = `metal-agent-${process.platform}-${process.arch}`
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const megabytes = async (file: string) => `${((await stat(file)).size / 1e6).toFixed(0)} MB`

say('building the self-contained command …')
await mkdir(path.join(folder, name), { recursive: true })
const command = path.join(folder, name, 'metal-agent')
await buildCommand(command)
const archive = path.join(folder, `${name}.tar.gz`)
await execa('tar', ['-czf', archive, '-C', folder, name])
say(`${path.relative(process.cwd(), command)}: ${await megabytes(command)}, runs with nothing beside it`)
say(`${path.relative(process.cwd(), archive)}: ${await megabytes(archive)}`)
if (process.platform === 'darwin') {
  say(`A Mac with Apple silicon starts it once it is signed: codesign --sign - --force ${command}`)
} else {
  say('For Macs it is built on a Mac: make package there, then codesign --sign - --force out/package/…/metal-agent')
}
