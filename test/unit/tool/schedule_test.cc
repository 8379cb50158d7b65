#include <map>
#include <set>
#include <string>
#include <vector>

#include <pugixml.hpp>

#include "enc/select.h"
#include "misc/datatype.h"
#include "tool_test_util.h"
#include "tools/nccom/schedule_tasks.h"
#include "tools/nccom/svg_program.h"

namespace nccom {
namespace {

Outcome program(std::vector<const char*> args) {
  args.insert(args.begin(), "program");
  return run(args);
}

std::string refused(const std::vector<const char*>& args) {
  const Outcome outcome = program(args);
  EXPECT_EQ(outcome.status, kExitUsage) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  return outcome.err;
}

// ---- a program from its JSON ----------------------------------------------------------------

encStep stepOf(const std::string& name) {
  for (uint32_t step = 0; step < kStepNumbers; step++) {
    if (encStepName(static_cast<encStep>(step)) == name) return static_cast<encStep>(step);
  }
  ADD_FAILURE() << "no step '" << name << "'";
  return encStep::Copy;
}

template <class T>
T valueOf(const Json& json, const char* key) {
  return json.contains(key) ? json[key].get<T>() : T{};
}

encAddress addressOf(const Json& json) {
  static const std::map<std::string, encBuffer> kBuffers = {{"INPUT", encBuffer::Input},
                                                            {"OUTPUT", encBuffer::Output},
                                                            {"SCRATCH", encBuffer::Scratch},
                                                            {"POSTED", encBuffer::Posted}};
  return {json["rank"], kBuffers.at(json["buffer"]), valueOf<uint16_t>(json, "index"),
          json["offset"], valueOf<int64_t>(json, "stride")};
}

encDesc descOf(const Json& json) {
  static const std::map<std::string, encDescType> kTypes = {
      {"transfer", encDescType::Transfer}, {"wait", encDescType::Wait},
      {"inc", encDescType::Inc},           {"post", encDescType::Post},
      {"net_send", encDescType::NetSend},  {"net_recv", encDescType::NetRecv}};
  encDesc desc;
  desc.type = kTypes.at(json["type"]);
  desc.step = stepOf(json["step"]);
  for (const Json& source : valueOf<Json>(json, "sources"))
    desc.sources.push_back(addressOf(source));
  for (const Json& destination : valueOf<Json>(json, "destinations"))
    desc.destinations.push_back(addressOf(destination));
  desc.bytes = valueOf<uint64_t>(json, "bytes");
  desc.scaledSources = valueOf<uint64_t>(json, "scaledSources");
  desc.divide = valueOf<bool>(json, "divide");
  if (json.contains("rank")) desc.rank = json["rank"];
  if (json.contains("semaphore")) desc.semaphore = json["semaphore"]["number"];
  desc.value = valueOf<int64_t>(json, "value");
  desc.stride = valueOf<int64_t>(json, "stride");
  desc.index = valueOf<uint16_t>(json, "index");
  desc.byValue = valueOf<bool>(json, "byValue");
  desc.connection = valueOf<uint32_t>(json, "connection");
  if (json.contains("net")) desc.net = addressOf(json["net"]);
  return desc;
}

/// All of it but the task.
encProgram programOf(const Json& json) {
  encProgram program;
  program.rank = json["rank"];
  program.nRanks = json["nRanks"];
  program.algorithm = json["algorithm"];
  for (const Json& each : json["queues"]) {
    encQueue queue;
    queue.channel = each["channel"];
    for (const Json& part : each["blocks"]) {
      encBlock block;
      block.repeat = part["repeat"];
      for (const Json& desc : part["descs"])
        block.descs.push_back(descOf(desc));
      queue.blocks.push_back(std::move(block));
    }
    program.queues.push_back(std::move(queue));
  }
  for (const Json& each : json["connections"]) {
    program.connections.push_back(
        {each["peer"], each["channel"], each["send"], each["semaphore"]["number"]});
  }
  for (const Json& total : json["totals"])
    program.totals.emplace_back(total["semaphore"]["number"], total["increments"]);
  program.scratchBytes = json["scratchBytes"];
  program.peerInputs = json["peerInputs"];
  program.inputByValue = json["inputByValue"];
  program.peerOutputs = json["peerOutputs"];
  return program;
}

struct Example {
  const char* platform;
  const char* ranks;
  const char* op;
  const char* bytes;
  const char* alg;  // empty: by the table
  const char* redOp;
};

const std::vector<Example> kExamples = {
    {"trn2.48xlarge", "4", "all_reduce", "64K", "ring", "mulsum"},
    {"trn2.48xlarge", "64", "reduce_scatter", "1M", "kangaring", "avg"},
    {"trn2.48xlarge", "64", "all_gather", "64M", "", ""},
    {"trn2.48xlarge", "8", "all_reduce", "64K", "", "avg"},
    {"trn2.48xlarge", "16", "all_gather", "8M", "", ""},
    {"4xtrn2.48xlarge", "16", "all_reduce", "1M", "", "max"},
    {"2xtrn1.32xlarge", "8", "all_reduce", "16M", "ring", "max"},
    {"2xtrn1.32xlarge", "8", "alltoall", "1M", "", ""},
    {"2xtrn2.48xlarge", "4", "sendrecv", "3M", "", ""},
    {"host", "2", "sendrecv", "64", "", ""},
    {"trn1.32xlarge", "8", "broadcast", "1M", "", ""},
    {"host", "5", "gather", "1K", "", ""},
    {"host", "3", "permute_implicit", "1K", "", ""},
};

TEST(Schedule, AProgramsJsonIsTheProgram) {
  for (const Example& example : kExamples) {
    SCOPED_TRACE(std::string(example.platform) + " " + example.op + " " + example.alg);
    std::vector<const char*> args = {
        "--platform", example.platform, "--ranks", example.ranks, "--op",  example.op,
        "--bytes",    example.bytes,    "--rank",  "1",           "--json"};
    if (*example.alg != '\0') args.insert(args.end(), {"--alg", example.alg});
    if (*example.redOp != '\0') args.insert(args.end(), {"--redop", example.redOp});
    const Outcome outcome = program(args);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json json = Json::parse(outcome.out)["program"];

    ScheduleOptions options;
    options.world.platform = example.platform;
    options.world.ranks = atoi(example.ranks);
    options.op = example.op;
    options.alg = example.alg;
    ASSERT_OK(asked, makeCase(options, true));
    TaskOptions task;
    task.bytes = example.bytes;
    task.redOp = example.redOp;
    ASSERT_OK(tasks, makeTasks(asked, task));
    enc_comm_info info = asked.info;
    info.rank = 1;
    ASSERT_OK(composed, encCompose(info, tasks.of(1)));
    encProgram read = programOf(json);
    EXPECT_EQ(json["task"]["op"], encOpName(composed.task.op));
    EXPECT_EQ(json["task"]["count"], composed.task.count);
    EXPECT_EQ(json["task"]["redOp"], ncclOpName(composed.task.redOp));
    read.task = composed.task;
    EXPECT_TRUE(read == composed) << encDump(read) << encDump(composed);
  }
}

TEST(Schedule, TheTextIsTheDumpWithTheNamesOfItsSemaphores) {
  const Outcome outcome = program({"--ranks", "4", "--bytes", "64K", "--alg", "ring"});
  EXPECT_EQ(outcome.status, 0);
  expectPart(outcome.out, "trn2.48xlarge, LNC 2, 1 node, 4 ranks\n");
  expectPart(outcome.out, "rank 0 of 4: AllReduce, ring");
  expectPart(outcome.out, "recv_reduce_send wait s");
  expectPart(outcome.out, ": received of ring channel 0\n");
  const Outcome mesh = program({"--ranks", "8", "--bytes", "64K"});
  expectPart(mesh.out, ": EVT_LOCAL_HNDSHK within servers\n");
  const Outcome hier = program({"--platform", "4xtrn2.48xlarge", "--ranks", "16", "--bytes", "1M"});
  expectPart(hier.out, "; stages mesh (");
}

TEST(Schedule, VerifiesTheProgramsOfAllRanks) {
  for (const Example& example : kExamples) {
    std::vector<const char*> args = {"--platform",  example.platform, "--ranks",
                                     example.ranks, "--op",           example.op,
                                     "--bytes",     example.bytes,    "--verify"};
    if (*example.alg != '\0') args.insert(args.end(), {"--alg", example.alg});
    const Outcome outcome = program(args);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expectPart(outcome.out, std::string("verified: ") + example.ranks + " programs of ");
    EXPECT_EQ(outcome.out.find("queue"), std::string::npos);
  }
  const Outcome json = program(
      {"--ranks", "4", "--bytes", "64K", "--alg", "ring", "--verify", "--in-place", "--json"});
  const Json verified = Json::parse(json.out)["verified"];
  EXPECT_EQ(verified["programs"], 4);
  EXPECT_EQ(verified["inPlace"], true);
  EXPECT_GE(verified["executed"].get<uint64_t>(), verified["descriptors"].get<uint64_t>());
}

TEST(Schedule, AViolationIsAFailureNotAMisuse) {
  ScheduleOptions options;
  options.world.ranks = 4;
  options.world.platform = kDefaultPlatform;
  options.alg = "ring";
  ASSERT_OK(asked, makeCase(options, true));
  TaskOptions task;
  task.bytes = "64K";
  ASSERT_OK(tasks, makeTasks(asked, task));
  ASSERT_OK(programs, composeAll(asked, tasks));
  EXPECT_TRUE(verifyPrograms(asked, programs, false).ok());
  for (encDesc& desc : programs[2].queues[0].blocks[0].descs) {
    if (desc.type == encDescType::Transfer) desc.destinations[0].offset += 4;
  }
  const Status status = verifyPrograms(asked, programs, false);
  ASSERT_FALSE(status.ok());
  testing::internal::CaptureStderr();
  EXPECT_EQ(refuse("program", status.error()), kExitFailed);
  expectPart(testing::internal::GetCapturedStderr(), status.error().message);
}

TEST(Schedule, CountsWhatProgramsCost) {
  const std::vector<const char*> args = {"--ranks", "64",  "--op",   "all_gather",
                                         "--bytes", "64M", "--cost", "--alg"};
  const auto touches = [&](const char* alg) {
    std::vector<const char*> all = args;
    all.insert(all.end(), {alg, "--json"});
    const Outcome outcome = program(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json cost = Json::parse(outcome.out)["cost"];
    EXPECT_EQ(cost["ranks"], 64);
    EXPECT_EQ(cost["messageBytes"], 64 << 20);
    EXPECT_EQ(cost["netBytes"], 0);
    EXPECT_GT(cost["steps"], 0);
    EXPECT_FALSE(cost["links"].empty());
    return cost["touchesPerRank"].get<double>();
  };
  EXPECT_LT(touches("kangaring"), touches("ring"));
  std::vector<const char*> text = args;
  text.push_back("kangaring");
  const Outcome outcome = program(text);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expectPart(outcome.out, "steps");
  EXPECT_EQ(outcome.out.find("queue 0"), std::string::npos);
}

TEST(Schedule, SizesAreRoundedUpToWholeElements) {
  const Outcome outcome =
      program({"--ranks", "64", "--op", "all_gather", "--bytes", "8", "--json"});
  EXPECT_EQ(outcome.status, 0);
  expectPart(outcome.err, "8 bytes are rounded up to 256: whole elements (float) of each rank");
  EXPECT_EQ(Json::parse(outcome.out)["program"]["task"]["count"], 1);
  const Outcome counted = program({"--ranks", "64", "--op", "all_gather", "--count", "3", "--type",
                                   "half", "--alg", "ring", "--json"});
  EXPECT_EQ(counted.err, "");
  EXPECT_EQ(Json::parse(counted.out)["program"]["task"]["count"], 3);
}

// ---- groups -----------------------------------------------------------------------------------

TEST(Schedule, AGroupHasProgramsOfItsOwn) {
  const TempFile file(R"({"replica_groups": [[0,2,4,6],[7,5,3,1]]})", ".json");
  const Outcome outcome = program(
      {"--ranks", "8", "--bytes", "64K", "--groups", file.path().c_str(), "--rank", "5", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["program"]["rank"], 1);
  EXPECT_EQ(json["program"]["nRanks"], 4);
  EXPECT_EQ(json["machine"]["group"]["members"], Json::array({7, 5, 3, 1}));
}

TEST(Schedule, GroupsOfAnyOrderOverHostsAndPodsVerify) {
  for (const char* text :
       {R"({"replica_groups": [[5,1,200,64,130,3]]})",
        R"({"replica_groups": [[0,64,128,192,1,65]]})",
        R"({"replica_groups": [[255,66,64,254,2,9]]})", R"({"replica_groups": [[7,135,71]]})"}) {
    const TempFile file(text, ".json");
    for (const char* platform : {"trn2-ultraserver", "4xtrn2.48xlarge"}) {
      for (const char* op : {"all_reduce", "all_gather", "reduce_scatter"}) {
        const Outcome outcome =
            program({"--platform", platform, "--bytes", "96K", "--op", op, "--groups",
                     file.path().c_str(), "--alg", "ring", "--verify"});
        EXPECT_EQ(outcome.status, 0) << platform << " " << text << ": " << outcome.err;
      }
    }
  }
}

TEST(Schedule, PairsSayWhoSendsToWhom) {
  const TempFile file(R"({"src_target_pairs": [[[0,3],[3,0],[5,6]], [[1,2],[2,1]]]})", ".json");
  const char* path = file.path().c_str();
  const Outcome sends =
      program({"--ranks", "8", "--op", "sendrecv", "--bytes", "64", "--groups", path, "--json"});
  ASSERT_EQ(sends.status, 0) << sends.err;
  const Json task = Json::parse(sends.out)["program"]["task"];
  EXPECT_EQ(task["sends"], Json::parse(R"([{"peer":1,"bytes":64,"index":0}])"));
  EXPECT_EQ(task["recvs"], Json::parse(R"([{"peer":1,"bytes":64,"index":0}])"));
  const Outcome permute = program({"--ranks", "8", "--op", "permute", "--bytes", "64", "--groups",
                                   path, "--group", "1", "--verify"});
  EXPECT_EQ(permute.status, 0) << permute.err;
  // Of rank 5's component only: the whole set is not one ring.
  const std::string error = refused(
      {"--ranks", "8", "--op", "permute", "--bytes", "64", "--groups", path, "--rank", "5"});
  expectPart(error, "group 0: source_target_pairs 0: rank 6 is a target and never a source");
  const TempFile twice(R"({"src_target_pairs": [[0,4],[4,0],[0,7],[7,0]]})", ".json");
  expectPart(refused({"--ranks", "8", "--op", "permute", "--bytes", "64", "--groups",
                      twice.path().c_str()}),
             "rank 0 is a source twice");
  expectPart(refused({"--ranks", "8", "--op", "permute", "--bytes", "64"}), "src_target_pairs");
}

TEST(Schedule, SaysWhatIsWrongWithAGroup) {
  const auto said = [](const char* text, std::vector<const char*> more = {}) {
    const TempFile file(text, ".json");
    std::vector<const char*> args = {"--bytes", "8", "--groups", file.path().c_str()};
    args.insert(args.end(), more.begin(), more.end());
    const std::string error = refused(args);
    expectPart(error, file.path());
    return error;
  };
  expectPart(said(R"({"replica_groups": [[0,1],[1,2]]})"), "rank 1 is in groups 0 and 1");
  expectPart(said(R"({"replica_groups": [[0,1],[2,3]]})", {"--rank", "9"}), "myself 9");
  expectPart(said(R"({"replica_groups": [[0,1]], "topology": 1})"), "unknown key \"topology\"");
  expectPart(said(R"({"replica_groups": [[0,1,2,3,4,5,6,7,8,9,10,11]]})", {"--alg", "rdh"}),
             "group 0: NCCOM_ALG names intra_rdh, which is not admitted for trn2 LNC 2, 12 ranks");
  expectPart(said(R"({"replica_groups": [[0,1,2,3,4,5,6]]})", {"--alg", "mesh"}),
             "group 0: NCCOM_ALG names mesh, which is not admitted for trn2 LNC 2, 7 ranks");
}

// ---- drawings ---------------------------------------------------------------------------------

struct Picture {
  std::set<std::string> texts;
  size_t bars = 0, waits = 0;  // boxes with a tooltip
  size_t arrows = 0, dashed = 0;
};

void read(const std::string& svg, Picture& picture) {
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg.c_str())) << svg.substr(0, 400);
  const pugi::xml_node root = document.document_element();
  ASSERT_STREQ(root.name(), "svg");
  const double width = root.attribute("width").as_double();
  const double height = root.attribute("height").as_double();
  for (const pugi::xml_node node : root.children()) {
    const std::string name = node.name();
    if (name == "text") picture.texts.insert(node.text().get());
    if (name == "line" && node.attribute("marker-end")) {
      (node.attribute("stroke-dasharray") ? picture.dashed : picture.arrows)++;
    }
    if (name != "rect" || !node.child("title")) continue;
    const bool waits = std::string(node.child_value("title")).find(" wait s") != std::string::npos;
    (waits ? picture.waits : picture.bars)++;
    EXPECT_LE(node.attribute("x").as_double() + node.attribute("width").as_double(), width);
    EXPECT_LE(node.attribute("y").as_double() + node.attribute("height").as_double(), height);
  }
}

TEST(ScheduleSvg, HasARowARankABarATransferAndAnArrowAMove) {
  const TempFile file("", ".svg");
  const Outcome outcome =
      program({"--ranks", "4", "--bytes", "64K", "--alg", "ring", "--svg", file.path().c_str()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  Picture picture;
  read(readText(file.path()), picture);
  for (const char* text : {"rank 0", "rank 1", "rank 2", "rank 3", "waits"})
    EXPECT_TRUE(picture.texts.contains(text)) << text;
  EXPECT_TRUE(picture.texts.contains("send (8)"));
  EXPECT_TRUE(
      picture.texts.contains("AllReduce by ring of 64 KiB: trn2.48xlarge, LNC 2, 1 node, 4 ranks"));
  EXPECT_EQ(picture.bars, 48U);
  EXPECT_EQ(picture.arrows, 48U);
  EXPECT_EQ(picture.dashed, 0U);
}

TEST(ScheduleSvg, TheTextsOfBarsLieOverTheArrows) {
  const Outcome outcome = program({"--ranks", "8", "--bytes", "64K", "--svg", "-"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_LT(outcome.out.rfind("marker-end"), outcome.out.find("paint-order"));
  EXPECT_NE(outcome.out.find("paint-order"), std::string::npos);
}

TEST(ScheduleSvg, NetworkArrowsAreDashed) {
  const Outcome outcome = program({"--platform", "2xtrn1.32xlarge", "--ranks", "4", "--bytes",
                                   "64K", "--alg", "ring", "--svg", "-"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Picture picture;
  read(outcome.out, picture);
  EXPECT_TRUE(picture.texts.contains("network"));
  EXPECT_GT(picture.dashed, 1U);  // the legend's
  EXPECT_GT(picture.waits, 0U);
}

TEST(ScheduleSvg, AnyAlgorithmOfAnySizeIsADocument) {
  for (const Example& example : kExamples) {
    std::vector<const char*> args = {
        "--platform", example.platform, "--ranks",     example.ranks, "--op",
        example.op,   "--bytes",        example.bytes, "--svg",       "-"};
    if (*example.alg != '\0') args.insert(args.end(), {"--alg", example.alg});
    const Outcome outcome = program(args);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    Picture picture;
    read(outcome.out, picture);
    EXPECT_GT(picture.bars, 0U);
  }
}

TEST(ScheduleSvg, SaysWhatItLeavesOut) {
  const Outcome large =
      program({"--ranks", "64", "--bytes", "256M", "--alg", "ring", "--svg", "-"});
  ASSERT_EQ(large.status, 0) << large.err;
  expectPart(large.err, "only the first ");
  expectPart(large.err, "arrows those of rank 0 are drawn");
  EXPECT_LT(large.out.size(), 8U << 20);
  const std::string error = refused({"--lnc", "1", "--bytes", "1K", "--alg", "ring", "--svg", "-"});
  expectPart(error, "a drawing of 128 ranks: want at most 64");
}

TEST(ScheduleSvg, ARanksArrowsAreThoseThatTouchIt) {
  const std::vector<const char*> args = {"--ranks", "4",    "--bytes", "32K",
                                         "--alg",   "ring", "--svg",   "-"};
  Picture all;
  read(program(args).out, all);
  EXPECT_GT(all.arrows, 0U);
  size_t touching = 0;
  for (const char* rank : {"0", "1", "2", "3"}) {
    std::vector<const char*> focused = args;
    focused.insert(focused.end(), {"--rank", rank});
    Picture own;
    read(program(focused).out, own);
    EXPECT_EQ(own.bars, all.bars);
    EXPECT_LT(own.arrows, all.arrows);
    touching += own.arrows;
  }
  EXPECT_EQ(touching, 2 * all.arrows);  // each touches two ranks
}

// ---- misuse -----------------------------------------------------------------------------------

TEST(Schedule, CountsWhoseBytesOverflowAreRefusedByEveryOperation) {
  // As bytes these are 0, 4, 16 and 0 where they wrap around.
  for (const char* count : {"9223372036854775808", "4611686018427387905", "2305843009213693954",
                            "4611686018427387904"}) {
    for (const char* op : {"all_gather", "all_reduce", "reduce_scatter", "alltoall", "broadcast",
                           "reduce", "gather", "scatter", "sendrecv", "permute_implicit"}) {
      for (const char* type : {"float", "double"}) {
        if (std::string(count).starts_with("230") && std::string(type) == "float") continue;
        const std::string said =
            refused({"--ranks", "4", "--op", op, "--count", count, "--type", type});
        expectPart(said, "too large");
      }
    }
  }
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  expectPart(refused({"--bytes", "8", "--platform", "trn9"}), "trn2.48xlarge");
  expectPart(refused({"--ranks", "4"}), "neither --bytes nor --count");
  expectPart(refused({"--bytes", "8", "--count", "2"}), "--bytes beside --count");
  expectPart(refused({"--bytes", "8", "--type", "complex"}), "bfloat16");
  expectPart(refused({"--bytes", "8", "--redop", "xor"}), "prod");
  expectPart(refused({"--bytes", "8", "--op", "all_gather", "--redop", "sum"}), "reduces nothing");
  expectPart(refused({"--bytes", "8", "--root", "0"}), "--root: all_reduce has none");
  expectPart(refused({"--bytes", "8", "--op", "reduce", "--root", "64"}), "root 64");
  expectPart(refused({"--bytes", "8", "--rank", "64"}), "rank 64; ranks of this world are 0 to 63");
  expectPart(refused({"--bytes", "8", "--rank", "-1"}), "rank -1");
  expectPart(refused({"--bytes", "8", "--in-place"}), "--verify");
  expectPart(
      refused({"--bytes", "8", "--ranks", "4", "--op", "sendrecv", "--verify", "--in-place"}),
      "sendrecv has no such form");
  expectPart(refused({"--bytes", "8", "--json", "--svg", "-"}), "standard output");
  expectPart(refused({"--bytes", "8", "--verify", "--svg", "-"}), "--verify beside --svg -");
  expectPart(refused({"--bytes", "8", "--op", "alltoallv"}), "of the runtime alone");
  expectPart(refused({"--bytes", "8", "--op", "gather", "--alg", "ring"}), "one way to do gather");
  expectPart(refused({"--count", "1K"}), "1K");
  expectPart(refused({"--bytes", "8", "--lnc", "0"}), "not in range 1 to 64");
  expectPart(refused({"--bytes", "8", "--platform", "host", "--ranks", "999999999"}),
             "not in range 1 to 16777216");
  expectPart(refused({"--ranks", "12", "--bytes", "8M", "--alg", "rdh"}), "12 ranks");
  const Outcome unwritable =
      program({"--ranks", "4", "--bytes", "1K", "--alg", "ring", "--svg", "/nowhere/drawing.svg"});
  EXPECT_EQ(unwritable.status, kExitFailed);
  expectPart(unwritable.err, "/nowhere/drawing.svg");
}

}  // namespace
}  // namespace nccom
