import { copyFile, mkdir, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { checksums, licenceOfNode, packFolder } from './archive.ts'
import { buildCommand } from './command.ts'
import { thirdPartyNotices } from './notices.ts'
import { buildNpmPackage } from './npm-package.ts'

const root = path.join(import.meta.dirname, '../..')
const folder = path.join(root, 'out/package')
const name = `metal-agent-${process.platform}-${process.arch}`
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const megabytes = async (file: string) => `${((await stat(file)).size / 1e6).toFixed(0)} MB`

say('building the self-contained command …')
await rm(path.join(folder, name), { recursive: true, force: true })
await mkdir(path.join(folder, name), { recursive: true })
const command = path.join(folder, name, 'metal-agent')
const packages = await buildCommand(command)
const notices = thirdPartyNotices(process.version, await licenceOfNode(), packages)
await writeFile(path.join(folder, name, 'THIRD_PARTY_NOTICES'), notices)
await copyFile(path.join(root, 'LICENSE'), path.join(folder, name, 'LICENSE'))
const archive = await packFolder(path.join(folder, name))
const npmPackage = await buildNpmPackage(folder)
await writeFile(path.join(folder, 'SHA256SUMS'), await checksums([archive, npmPackage]))
say(`${path.relative(process.cwd(), command)}: ${await megabytes(command)}, runs with nothing beside it`)
say(`${path.relative(process.cwd(), archive)}: ${await megabytes(archive)}`)
say(`${path.relative(process.cwd(), npmPackage)}: ${await megabytes(npmPackage)}, for npm install --global`)
if (process.platform === 'darwin') {
  say(`A Mac with Apple silicon starts it once it is signed: codesign --sign - --force ${command}`)
  say(`building the app for ${process.arch} …`)
  const node = { cwd: root, stdio: 'inherit', preferLocal: true } as const
  await execa('npm', ['run', '--silent', 'build'], node)
  await execa(process.execPath, ['tasks/package/build-app.ts', '--arch', process.arch], node)
  say(
    'out/app: the disk image and the zip. Without a Developer ID in the keychain nothing is signed, and Apple silicon starts no such app.',
  )
} else {
  say('For Macs it is built on a Mac: make package there, then codesign --sign - --force out/package/…/metal-agent')
  say('The app is built on a Mac too, as disk image and zip: make package there, which ends with')
  say('  npm run build && node tasks/package/build-app.ts --arch arm64')
  say('Here only what it is made of is checked: npx vitest run --project shell test/shell/package.test.ts')
}
