import { editableRows } from '../../contract/settings-table.ts'

export interface DownloadSettings {
  /** Of all downloads together; 0 = no limit. */
  readonly bytesPerSecond: number
  readonly atOnce: number
  readonly hubEndpoint?: string | undefined
  readonly hubTokenFile?: string | undefined
  readonly caFile?: string | undefined
  /** 0 = the smaller of 2 GiB and 1 % of the volume. */
  readonly reserveBytes: number
  readonly partialKeepMs: number
  /** Namespaces whose Models may use the login of the person at this machine. */
  readonly hubLoginNamespaces: readonly string[]
}

export const defaultDownloadSettings: DownloadSettings = {
  bytesPerSecond: editableRows.downloadBytesPerSecond.default,
  atOnce: editableRows.downloadsAtOnce.default,
  reserveBytes: editableRows.diskReserveBytes.default,
  partialKeepMs: editableRows.partialKeepMs.default,
  hubLoginNamespaces: [],
}
