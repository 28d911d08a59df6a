import { type ReactNode, useEffect } from 'react'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { editableRow, settingNames, type SettingView, type StartSettingView } from '../../contract/settings.ts'
import { type SettingSection, settingSections } from '../../contract/settings-table.ts'
import type { Answer as AnswerOf } from '../../contract/queries.ts'
import { BottomBar, Buttons, Note, ViewPage } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { FindField } from '../components/fields.tsx'
import { classNames, Spoken } from '../components/text.tsx'
import { lookFor } from '../focus.ts'
import { hasWords } from '../search.ts'
import { changedIn, type Draft, pageOf, patchOfDraft, settingParts, withoutSent } from '../settings-draft.ts'
import { useApp, useSnapshot, useWindow } from '../store.ts'
import { useAnswer, useRequest } from '../use-answer.ts'
import { settingWords } from '../words/settings.ts'
import { Answer } from './answer.tsx'
import { SettingRow, StartRow } from './setting-field.tsx'
import { SettingsGeneral } from './settings-app.tsx'
import {
  Place,
  SettingsCluster,
  SettingsModels,
  SettingsNetwork,
  SettingsPower,
  SettingsRuntimes,
} from './settings-sections.tsx'
import styles from './settings.module.css'

const about = 'settings'

/** What a page shows before its settings. */
const places: Readonly<Partial<Record<SettingSection, () => ReactNode>>> = {
  Cluster: SettingsCluster,
  Network: SettingsNetwork,
  Runtimes: SettingsRuntimes,
  Models: SettingsModels,
  Power: SettingsPower,
}

/** Every setting of the agent, on a page for each section. What a person writes is one draft until it is applied. */
export function Settings() {
  const request = useWindow(({ requests }) => requests[about])
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const { answer = noSettings, problem } = useAnswer({ name: 'settings' }, [request?.state, revision])
  const changed = changedIn(
    useWindow((state) => state.draft),
    answer.settings,
  )
  const text = useWindow((state) => state.settingSearch)
  const search = useWindow((state) => state.searchSettings)
  const page = useWindow((state) => state.settingPage)
  const turn = useWindow((state) => state.turnSettings)
  const goal = useWindow((state) => state.goal)
  useEffect(() => goal && lookFor(goal.id), [goal])
  const isSearching = text.trim() !== ''
  return (
    <ViewPage id="settings" title={settingWords.title}>
      <Note>{problem}</Note>
      <div className={styles['columns']}>
        <div className={styles['side']}>
          <FindField label={settingWords.search} placeholder={settingWords.search} text={text} onChange={search} />
          <Pages page={isSearching ? undefined : page} onChoose={turn} />
        </div>
        {isSearching ? (
          <Found text={text} settings={answer} changed={changed} />
        ) : (
          <Page key={page} page={page} settings={answer} changed={changed} />
        )}
      </div>
      <ApplyBar changed={changed} />
    </ViewPage>
  )
}

const noSettings: AnswerOf<'settings'> = { settings: [], start: [] }

interface PagesProps {
  /** Undefined = what was found is shown in place of a page. */
  readonly page: SettingSection | undefined
  readonly onChoose: (page: SettingSection) => void
}

const Pages = ({ page, onChoose }: PagesProps) => (
  <ListBox
    aria-label={settingWords.pageList}
    className={classNames(styles['pages'])}
    layout="grid"
    selectionMode="single"
    selectionBehavior="replace"
    disallowEmptySelection
    selectedKeys={page === undefined ? [] : [page]}
    onSelectionChange={(keys) => {
      const chosen = settingSections.find((one) => keys !== 'all' && keys.has(one))
      if (chosen !== undefined) onChoose(chosen)
    }}
  >
    {settingSections.map((one) => (
      <ListBoxItem key={one} id={one} className={classNames(styles['pageName'])}>
        {one}
      </ListBoxItem>
    ))}
  </ListBox>
)

interface RowsProps {
  readonly settings: AnswerOf<'settings'>
  readonly changed: Draft
  readonly wants: (one: SettingView | StartSettingView) => boolean
}

/** The rows of those settings that are wanted. */
const Rows = ({ settings: { settings, start, startFile }, changed, wants }: RowsProps) => (
  <>
    {settings.filter(wants).map((view) => (
      <SettingRow key={view.name} view={view} written={changed[view.name]} />
    ))}
    {start.filter(wants).map((view) => (
      <StartRow key={view.name} view={view} startFile={startFile} />
    ))}
  </>
)

const sectionOf = (one: SettingView | StartSettingView): SettingSection =>
  'section' in one ? one.section : editableRow(one.name).section
const isFirst = (one: SettingView | StartSettingView): boolean =>
  !('section' in one) && editableRow(one.name).isFirst === true

type PageProps = Omit<RowsProps, 'wants'>

function Page({ page, ...rows }: PageProps & { readonly page: SettingSection }) {
  const app = useApp()
  const First = places[page]
  return (
    <div role="group" className={styles['page']} aria-label={page}>
      <h3>
        {/* The list beside it says so already. */}
        <Spoken>{page}</Spoken>
      </h3>
      {page === 'General' && (
        <>
          <Group title={settingWords.first}>
            <Rows {...rows} wants={isFirst} />
          </Group>
          {app !== undefined && (
            <Group title={settingWords.app}>
              <SettingsGeneral app={app} />
            </Group>
          )}
        </>
      )}
      <div className={styles['fields']}>
        {First !== undefined && <First />}
        <Rows {...rows} wants={(one) => sectionOf(one) === page} />
      </div>
    </div>
  )
}

/** Settings by name, help and flag, with the pages that they are on. */
function Found({ text, ...rows }: PageProps & { readonly text: string }) {
  const app = useApp()
  const leadTo = useWindow((state) => state.leadTo)
  const isFound = (one: SettingView | StartSettingView) => {
    const { title, help, more = '', flag } = 'section' in one ? one : editableRow(one.name)
    return hasWords(text, [title, help, more, `--${flag}`])
  }
  const found = [...rows.settings.settings, ...rows.settings.start].filter(isFound)
  const parts = settingParts.filter(
    (part) => (app !== undefined || pageOf(part) !== 'General') && hasWords(text, settingWords.parts[part]),
  )
  return (
    <div role="group" className={styles['page']} aria-label={settingWords.search}>
      <h3 className={styles['name']}>
        <span role="status">{settingWords.found(found.length + parts.length)}</span>
      </h3>
      {settingSections.map((page) => {
        const here = parts.filter((part) => pageOf(part) === page)
        return here.length === 0 && !found.some((one) => sectionOf(one) === page) ? null : (
          <Group key={page} title={page}>
            {here.map((part) => (
              <Place key={part}>
                <Button look="link" onPress={() => leadTo(part)}>
                  {settingWords.parts[part][0]}
                </Button>
              </Place>
            ))}
            <Rows {...rows} wants={(one) => sectionOf(one) === page && isFound(one)} />
          </Group>
        )
      })}
    </div>
  )
}

function Group({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div role="group" className={styles['group']} aria-label={title}>
      <h4 className={styles['name']}>{title}</h4>
      <div className={styles['fields']}>{children}</div>
    </div>
  )
}

/** How many changes there are, with a link to each page that has one, or to each value that cannot be applied. */
function ApplyBar({ changed }: { readonly changed: Draft }) {
  const { pending, disabled, ask } = useRequest(about)
  const draft = useWindow((state) => state.draft)
  const write = useWindow((state) => state.write)
  const leadTo = useWindow((state) => state.leadTo)
  const { patch, problems } = patchOfDraft(changed)
  const names = settingNames.filter((name) => changed[name] !== undefined)
  const isWrong = problems.length > 0
  const links = isWrong
    ? problems.map((name) => ({ name, label: editableRow(name).title }))
    : names.map((name) => ({ name, label: editableRow(name).section }))
  const apply = async () => {
    if (await ask({ name: 'updateSettings', settings: patch })) write((now) => withoutSent(now, draft))
  }
  return (
    <BottomBar>
      <Answer about={about} />
      <Buttons>
        <div className={styles['changes']}>
          <span role="status">{settingWords.changes(names.length, problems.length)}</span>
          {links
            .filter(({ label }, index) => links.findIndex((link) => link.label === label) === index)
            .map(({ name, label }) => (
              <Button key={name} look="link" label={settingWords.show(label)} onPress={() => leadTo(name)}>
                {label}
              </Button>
            ))}
        </div>
        <Button disabled={names.length === 0} onPress={() => write(() => ({}))}>
          {settingWords.revert}
        </Button>
        <Button
          look="prominent"
          disabled={names.length === 0 || isWrong || disabled}
          pending={pending}
          onPress={() => void apply()}
        >
          {settingWords.apply}
        </Button>
      </Buttons>
    </BottomBar>
  )
}
