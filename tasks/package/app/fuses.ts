import { FuseV1Options, FuseVersion, type FuseV1Config } from '@electron/fuses'
import type { Flavour } from './flavours.ts'

/** Every fuse by name: one that a later Electron adds stops the build until somebody decides about it. */
type AllFuses = FuseV1Config & Readonly<Record<FuseV1Options, boolean>>

export const fusesOf = (flavour: Flavour): AllFuses => ({
  version: FuseVersion.V1,
  strictlyRequireAllFuses: true,
  // The app is no Node.js for others to run as it: with its rights, and behind its name.
  [FuseV1Options.RunAsNode]: false,
  [FuseV1Options.EnableNodeOptionsEnvironmentVariable]: false,
  // By it Playwright drives the app.
  [FuseV1Options.EnableNodeCliInspectArguments]: flavour === 'e2e',
  [FuseV1Options.EnableEmbeddedAsarIntegrityValidation]: true,
  [FuseV1Options.OnlyLoadAppFromAsar]: true,
  // There are no cookies, and a key for them would make macOS ask for the keychain.
  [FuseV1Options.EnableCookieEncryption]: false,
  [FuseV1Options.LoadBrowserProcessSpecificV8Snapshot]: false,
  // The window is served by a scheme of the app's own.
  [FuseV1Options.GrantFileProtocolExtraPrivileges]: false,
  // Only how V8 checks the bounds of WebAssembly memory; off is slower, and gains nothing.
  [FuseV1Options.WasmTrapHandlers]: true,
})
