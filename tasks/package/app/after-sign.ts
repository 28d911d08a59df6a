import path from 'node:path'
import type { AfterPackContext } from 'electron-builder'
import { execa } from 'execa'
import { releaseAppId } from './flavours.ts'
import { checkSignature } from './signature.ts'

/** electron-builder calls it with the app signed, and before anything is made of it. */
export default async function afterSign({ appOutDir, packager }: AfterPackContext): Promise<void> {
  if (process.platform !== 'darwin') return
  const { appInfo, config } = packager
  const app = path.join(appOutDir, `${appInfo.productFilename}.app`)
  const mustSign = config.forceCodeSigning === true
  // It fails where nothing is signed.
  const { all, failed } = await execa('codesign', ['-dvv', app], { all: true, reject: false })
  if (failed && appInfo.id === releaseAppId && !mustSign) return
  checkSignature(appInfo.id === releaseAppId ? 'release' : 'e2e', mustSign, all)
}
