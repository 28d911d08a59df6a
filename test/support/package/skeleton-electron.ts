import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { build } from 'plist'

/** What Electron's fuses are found by in its binary; then the version of the wire, its length, and one digit for each fuse. */
const fuseSentinel = 'dL7pKGdnNz796PbbjQWNKmHXBZaB9tsX'
/** As Electron 45 comes, in the order of FuseV1Options. */
const openFuses = '101000010'

const helpers = ['Helper', 'Helper (GPU)', 'Helper (Plugin)', 'Helper (Renderer)']
const locales = ['en', 'de', 'zh_CN']

/** Reasons that Electron gives for what any app might ask for. */
const foreignReasons = {
  NSCameraUsageDescription: 'This app needs access to the camera',
  NSMicrophoneUsageDescription: 'This app needs access to the microphone',
}

/**
 * Writes an Electron.app without Electron: the files that electron-builder looks for, with nothing in them that runs. What is packed with
 * it is checked, and is no package.
 */
export async function writeSkeletonElectron(folder: string): Promise<void> {
  const contents = path.join(folder, 'Electron.app/Contents')
  await writeBundle(path.join(folder, 'Electron.app'), 'Electron', {
    CFBundleIconFile: 'electron.icns',
    LSMinimumSystemVersion: '13.0',
    ...foreignReasons,
  })
  await writeFile(path.join(contents, 'Resources/electron.icns'), 'the icon of Electron')
  for (const helper of helpers) {
    await writeBundle(path.join(contents, `Frameworks/Electron ${helper}.app`), `Electron ${helper}`, {})
  }
  const framework = path.join(contents, 'Frameworks/Electron Framework.framework')
  const wire = Buffer.from([1, openFuses.length])
  const version = path.join(framework, 'Versions/A')
  await mkdir(version, { recursive: true })
  await symlink('Versions/A/Electron Framework', path.join(framework, 'Electron Framework'))
  await writeFile(
    path.join(version, 'Electron Framework'),
    Buffer.concat([Buffer.from(fuseSentinel), wire, Buffer.from(openFuses)]),
  )
  for (const parent of [path.join(version, 'Resources'), path.join(contents, 'Resources')]) {
    for (const locale of locales) {
      await mkdir(path.join(parent, `${locale}.lproj`), { recursive: true })
      await writeFile(path.join(parent, `${locale}.lproj/locale.pak`), locale)
    }
  }
}

/** The UUID of every program of one Electron. */
export const skeletonUuid = '4c4c4461555531449f6e17d7d0d4c1a2'

/** A Mach-O file for arm64 with its UUID and nothing that runs. */
function skeletonProgram(): Buffer {
  const words = Buffer.alloc(40)
  for (const [index, value] of [0xfeedfacf, 0x0100000c, 0, 2, 1, 24, 0, 0, 0x1b, 24].entries())
    words.writeUInt32LE(value, index * 4)
  return Buffer.concat([words, Buffer.from(skeletonUuid, 'hex')])
}

async function writeBundle(bundle: string, name: string, more: Readonly<Record<string, string>>): Promise<void> {
  const contents = path.join(bundle, 'Contents')
  await mkdir(path.join(contents, 'MacOS'), { recursive: true })
  await mkdir(path.join(contents, 'Resources'), { recursive: true })
  const info = { CFBundleExecutable: name, CFBundleIdentifier: 'com.github.Electron', CFBundleName: name, ...more }
  await writeFile(path.join(contents, 'Info.plist'), build(info))
  const executable = path.join(contents, 'MacOS', name)
  await writeFile(executable, skeletonProgram())
  await chmod(executable, 0o755)
}
