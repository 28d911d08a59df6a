interface PublishedFile {
  readonly url: string
}

/** Of what one release publishes for all Macs, the archive that electron-updater would download on this one. */
export function archiveFor<F extends PublishedFile>(files: readonly F[], isArm64Mac: boolean): F | undefined {
  const archives = files.filter(({ url }) => url.toLowerCase().endsWith('.zip'))
  const arm64 = archives.filter(isForArm64)
  // A Mac of Apple's own chips runs the other too, where there is no better one.
  const fit = isArm64Mac && arm64.length > 0 ? arm64 : archives.filter((file) => !isForArm64(file))
  return fit.find(({ url }) => url.includes(process.arch)) ?? fit[0]
}

const isForArm64 = ({ url }: PublishedFile): boolean => url.includes('arm64')
